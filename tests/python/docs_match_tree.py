#!/usr/bin/env python3
"""The docs name what exists: files and folders, tests, flags; and their listings are the text of files that are built.

    docs_match_tree.py PROGRAM [ROOT]

Checks Markdown files and the comments of sources, in the repository or in ROOT:

- each path of a file or folder of ours exists, seen from the root, src/, tests/, or the folder of the file that names it;
- each flag, each test behind "Test:" or "Tests:", and in the pages about the code each name in backticks, is a word of
  the sources;
- the pages that list the rooms have a row of each;
- each listing of C++ follows a line <!-- source: FILE -->, and its lines are consecutive lines of that file, but for a
  common indentation; a line with … stands for lines that are left out;
- each other listing of the how-to pages follows <!-- run -->, and its lines run in an empty folder in which
  build/shoehorn is PROGRAM: diff finds differences, every other command exits with 0.

Prints FILE:LINE and what is wrong, and exits with 1 if anything is.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).parents[2]).resolve()
# Names that stand for any file of their kind, besides those with NAME in them.
PLACEHOLDERS = {"x.cc", "x_test.cc", "x_bench.cc", "-inl.h", "ss.cc"}
# Files of other projects: Highway's, Transformers' examples. And one that CMake makes.
FOREIGN = {"foreach_target.h", "hwy/foreach_target.h", "highway.h", "run_clm.py", "run_glue.py", "run_translation.py",
           "shoehorn-config.cmake"}
# Names of plots in TensorBoard.
FOREIGN_UNITS = {"train/loss", "train/learning_rate"}
ENDINGS = "h|cc|py|sh|md|toml|cmake|dict"
PATH = re.compile(r"(?<![\w/.<\"$*{}~-])([A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*\.(?:%s))(?![\w/*(-])" % ENDINGS)
FOLDER_OR_UNIT = re.compile(r"`([a-z_]+(?:/[a-z0-9_-]+)+/?)`")
# The pages whose names in backticks are those of our code; the others have Transformers' and PyTorch's too.
ABOUT_CODE = r"docs/(design|fuzzing|how-to.*)\.md$|src/README\.md$|CONTRIBUTING\.md$"
# The pages with a table of the folders of src/.
TOURS = {"README.md", "src/README.md", "docs/design.md"}
TESTS = re.compile(r"\*Tests?: (.*?)\*(?!\*)", re.S)
FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b")
MARKER = re.compile(r"^ *<!-- (source: (\S+)|run) -->$")


# The files of the repository; without git, or outside of a repository, all that no build and no download made.
def files_of_tree():
    try:
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
        names = listed.stdout.splitlines() if listed.returncode == 0 else []
    except FileNotFoundError:
        names = []
    if not names:
        paths = (path.relative_to(ROOT) for path in ROOT.rglob("*"))
        names = [str(path) for path in paths if not re.match(r"build|\.(?!ci)", path.parts[0])]
    return [name for name in names if (ROOT / name).is_file()]


class Tree:
    def __init__(self):
        self.files = set(files_of_tree())
        self.names = {pathlib.PurePosixPath(name).name for name in self.files}
        self.folders = {str(parent) for name in self.files for parent in pathlib.PurePosixPath(name).parents}
        self.rooms = {folder.split("/")[1] for folder in self.folders if folder.startswith("src/") and folder.count("/") == 1}
        code = "\n".join(
            (ROOT / name).read_text(errors="replace")
            for name in sorted(self.files)
            if re.search(r"\.(cc|h|py|sh|txt|cmake|toml)$|/run$|Makefile$|\.json$", name) and not name.startswith("bench/results"))
        self.words = set(re.findall(r"\w+", code))

    # A path is written from the root, from src/, from tests/, or from the folder of the file that names it or one above.
    def has(self, path, place):
        starts = ["", "src/", "tests/"] + [f"{parent}/" for parent in place.parents]
        return any(start + path in self.files or start + path.rstrip("/") in self.folders for start in starts)

    def has_file(self, path, place):
        if path.startswith("../"):
            return (ROOT / place.parent / path).is_file()
        if "/" not in path:
            return path in self.names
        return self.has(path, place) or any(name.endswith("/" + path) for name in self.files)

    # Of paths without an ending: a folder, or the header or source of that name.
    def has_unit(self, path, place):
        return self.has(path, place) or any(self.has(path + ending, place) for ending in (".h", ".cc", "_test.cc", ".py"))


# The comments of a source, with other characters as spaces, so that places stay.
def comments_of(text, name):
    mark = "//" if re.search(r"\.(cc|h)$", name) else "#"
    lines = []
    for line in text.split("\n"):
        at = line.find(mark)
        is_comment = at >= 0 and line[:at].count('"') % 2 == 0 and "#include" not in line
        lines.append(" " * at + line[at:] if is_comment else "")
    return "\n".join(lines)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def wrong_paths(tree, name, text):
    place = pathlib.PurePosixPath(name)
    for match in PATH.finditer(text):
        path = match[1]
        is_address = re.search(r"https?:\S*$", text[max(0, match.start() - 80):match.start()])
        if path in PLACEHOLDERS | FOREIGN or "NAME" in path or is_address:
            continue
        if not tree.has_file(path, place):
            yield line_of(text, match.start()), f"there is no file {path}"
    for match in FOLDER_OR_UNIT.finditer(text):
        first = match[1].split("/")[0]
        if match[1] in FOREIGN_UNITS:
            continue
        if first in tree.rooms | {"src", "tests", "docs", "bench", "scripts", "examples", "fuzz", "cmake", "demo"}:
            if not tree.has_unit(match[1], place):
                yield line_of(text, match.start()), f"there is no file or folder {match[1]}"


def wrong_tests(tree, text):
    for passage in TESTS.finditer(text):
        for name in re.finditer(r"`([A-Z]\w+)(?:[./][\w*/|]+)*`", passage[1]):
            if name[1] not in tree.words:
                yield line_of(text, passage.start(1) + name.start()), f"there is no test {name[1]}"


# Names of code in backticks: CamelCase, kConstant, snake_case with an underscore, each part of A::b.
def wrong_names(tree, text):
    for match in re.finditer(r"`([A-Za-z_][\w:.]*)(?:\([^`]*\))?`", text):
        if PATH.fullmatch(match[1]) or "ROOM" in match[1]:
            continue
        for part in re.split(r"::|\.", match[1]):
            is_code = re.fullmatch(r"[A-Z]\w*[a-z]\w*[A-Z]\w*|k[A-Z]\w+|[a-z]\w*_\w+", part)
            if is_code and part not in tree.words:
                yield line_of(text, match.start()), f"nothing has the name {part}"


def missing_rooms(tree, text):
    listed = set()
    for row in re.finditer(r"^\| (`[^|]*) \|", text, re.M):
        listed.update(name.removeprefix("src/").rstrip("/") for name in re.findall(r"`([^`]*)`", row[1]))
    for room in sorted(tree.rooms - listed):
        yield 1, f"no table has a row of the room {room}"


def wrong_flags(tree, text):
    for match in FLAG.finditer(text):
        if match[1] not in tree.words:
            yield line_of(text, match.start()), f"there is no flag --{match[1]}"


def common_indentation(lines):
    widths = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
    return min(widths, default=0)


# Whether the lines stand in the source one behind the other, moved by one and the same indentation.
def stands_in(part, source, start):
    for begin in range(start, len(source) - len(part) + 1):
        window = source[begin:begin + len(part)]
        width = common_indentation(window)
        if all((line[width:] if line.strip() else "") == wanted for line, wanted in zip(window, part)):
            return begin + len(part)
    return None


def wrong_quote(listing, path):
    if not (ROOT / path).is_file():
        return f"there is no file {path}"
    source = [line.rstrip() for line in (ROOT / path).read_text().split("\n")]
    width = common_indentation(listing)
    parts = [[]]
    for line in listing:
        if line.strip() == "…":
            parts.append([])
        else:
            parts[-1].append(line[width:].rstrip())
    end = 0
    for part in parts:
        shift = common_indentation(part)
        end = stands_in([line[shift:] for line in part], source, end)
        if end is None:
            return f"{path} does not have these lines: " + next((line.strip() for line in part if line.strip() and not any(
                line.strip() == other.strip() for other in source)), part[0].strip() + " …")
    return None


def failed_run(commands, program):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "build").mkdir()
        (pathlib.Path(folder) / "build/shoehorn").symlink_to(pathlib.Path(program).resolve())
        for command in commands:
            result = subprocess.run(["sh", "-c", command.strip()], cwd=folder, capture_output=True, text=True)
            if result.returncode != (1 if command.strip().startswith("diff ") else 0):
                return f"`{command.strip()}` exits with {result.returncode}: {result.stderr.strip()[-300:]}"
    return None


def wrong_listings(name, text, program):
    lines = text.split("\n")
    fences = [i for i, line in enumerate(lines) if line.lstrip().startswith("```")]
    for begin, end in zip(fences[::2], fences[1::2]):
        marker = MARKER.match(lines[begin - 1])
        is_how_to = name.startswith("docs/how-to")
        if marker is None:
            if is_how_to or lines[begin].strip() == "```cpp":
                yield begin + 1, "a listing without <!-- source: FILE --> or <!-- run --> before it"
            continue
        listing = lines[begin + 1:end]
        wrong = wrong_quote(listing, marker[2]) if marker[2] else failed_run(listing, program)
        if wrong:
            yield begin + 1, wrong


def main():
    program = sys.argv[1]
    tree = Tree()
    mistakes = 0
    for name in sorted(tree.files):
        is_doc = name.endswith(".md")
        if not is_doc and not re.search(r"\.(h|cc|py|sh|cmake)$|CMakeLists\.txt$", name):
            continue
        text = (ROOT / name).read_text()
        checked = text if is_doc else comments_of(text, name)
        found = list(wrong_paths(tree, name, checked)) + list(wrong_flags(tree, checked))
        if is_doc:
            found += list(wrong_tests(tree, text)) + list(wrong_listings(name, text, program))
        if re.match(ABOUT_CODE, name):
            found += list(wrong_names(tree, text))
        if name in TOURS:
            found += list(missing_rooms(tree, text))
        for line, mistake in sorted(found):
            print(f"{name}:{line}: {mistake}")
            mistakes += 1
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())

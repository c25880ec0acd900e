#!/usr/bin/env python3
"""docs_match_tree.py finds a mistake of each kind in a small tree, at its line, and nothing else."""

import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).with_name("docs_match_tree.py")

SOURCE = """\
// As io/file.h has it, with --real_flag.
int real_flag() {
  return 1;
}

int last() { return 2; }
"""

PAGE = """\
`io/file.h` and `io/gone.h`, `io/file` and `io/gone`.
The flag `--real_flag`, not `--gone_flag`. *Tests: `RealTest`, `GoneTest`.* `real_flag()` but not `gone_name()`.

<!-- source: src/io/file.h -->
```cpp
int real_flag() {
  return 1;
}
…
int last() { return 2; }
```

<!-- source: src/io/file.h -->
```cpp
int real_flag() {
  return 2;
}
```

```cpp
int unmarked();
```

<!-- run -->
```
build/shoehorn
```

<!-- run -->
```
build/shoehorn && false
```
"""

TOUR = """\
| folder | what happens there |
| --- | --- |
| `src/io`, `tests` | files |
"""

EXPECTED = """\
README.md:1: no table has a row of the room base
docs/how-to.md:1: there is no file io/gone.h
docs/how-to.md:1: there is no file or folder io/gone
docs/how-to.md:2: nothing has the name GoneTest
docs/how-to.md:2: nothing has the name gone_name
docs/how-to.md:2: there is no flag --gone_flag
docs/how-to.md:2: there is no test GoneTest
docs/how-to.md:14: src/io/file.h does not have these lines: return 2;
docs/how-to.md:20: a listing without <!-- source: FILE --> or <!-- run --> before it
docs/how-to.md:30: `build/shoehorn && false` exits with 1:
"""

with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    files = {"README.md": TOUR, "src/base/error.h": "", "src/io/file.h": SOURCE, "tests/real_test.cc": "TEST(RealTest, Is) {}\n",
             "docs/how-to.md": PAGE}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    result = subprocess.run([sys.executable, SCRIPT, "/bin/true", root], capture_output=True, text=True)
    found = "\n".join(line.rstrip() for line in result.stdout.splitlines()) + "\n"
    if found != EXPECTED or result.returncode != 1:
        sys.exit(f"expected\n{EXPECTED}and exit code 1, got {result.returncode} and\n{found}{result.stderr}")

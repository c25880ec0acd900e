#!/bin/sh
# Makes a text-classification task of the Debian package fortunes: the text is a fortune, the label the file it is from.
#
#   scripts/make_fortunes.sh OUTPUT_DIR [FORTUNES_DIR]
#
# Writes train.jsonl and validation.jsonl, a line {"text": …, "label": …} a fortune. The files taken are those that
# collect by subject or source (not the miscellanies, whose label says nothing of the text); of each at most 300
# fortunes, spread evenly over the file, without repetitions. About 15% are held out, chosen by a checksum of the text:
# the same on every machine.
set -eu

output=$1
fortunes=${2:-/usr/share/games/fortunes}
categories="art computers definitions disclaimer education food kids knghtbrd law linux literature love perl
  politics riddles science songs-poems sports startrek work zippy"

mkdir -p "$output"
paths=
for category in $categories; do
  [ -f "$fortunes/$category" ] || { echo "no $fortunes/$category: is the package fortunes installed?" >&2; exit 1; }
  paths="$paths $fortunes/$category"
done

# shellcheck disable=SC2086  # the paths are words
LC_ALL=C awk -v most=300 -v train="$output/train.jsonl" -v validation="$output/validation.jsonl" '
  function checksum(text,    i, sum) {
    sum = 0
    for (i = 1; i <= length(text); ++i) sum = (sum * 31 + code[substr(text, i, 1)]) % 1000003
    return sum
  }
  function escaped(text) {
    gsub(/["\\]/, "\\\\&", text)
    return text
  }
  function end_of_fortune() {
    gsub(/[\001-\037\177]+/, " ", text)
    gsub(/  +/, " ", text)
    sub(/^ /, "", text)
    sub(/ $/, "", text)
    if (text != "" && !(text in seen)) {
      seen[text] = 1
      texts[count++] = text
    }
    text = ""
  }
  function end_of_file(    i, line) {
    end_of_fortune()
    for (i = 0; i < count; ++i) {
      if (count > most && int(i * most / count) == int((i + 1) * most / count)) continue
      line = "{\"text\": \"" escaped(texts[i]) "\", \"label\": \"" label "\"}"
      print line > (checksum(texts[i]) % 100 < 15 ? validation : train)
    }
    count = 0
  }
  BEGIN { for (i = 1; i < 256; ++i) code[sprintf("%c", i)] = i }
  FNR == 1 {
    if (label != "") end_of_file()
    label = FILENAME
    sub(/.*\//, "", label)
  }
  /^%$/ { end_of_fortune(); next }
  { text = text " " $0 }
  END { end_of_file() }
' $paths

#include "tokenize/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace shoehorn {
namespace {

struct Range {
  int32_t first;
  int32_t last;
};

// Cf of Unicode 15 that the older table does not hold.
constexpr Range kNotControl[] = {{0x890, 0x891}, {0x8E2, 0x8E2}, {0x110CD, 0x110CD}, {0x13430, 0x1343F}};

// P* of Unicode 15 that the older table does not hold.
constexpr Range kNotPunctuation[] = {
    {0x61D, 0x61D},     {0x9FD, 0x9FD},     {0xA76, 0xA76},     {0xC77, 0xC77},     {0xC84, 0xC84},
    {0x1B7D, 0x1B7E},   {0x2E43, 0x2E4F},   {0x2E52, 0x2E5D},   {0x10EAD, 0x10EAD}, {0x10F55, 0x10F59},
    {0x10F86, 0x10F89}, {0x1144B, 0x1144F}, {0x1145A, 0x1145B}, {0x1145D, 0x1145D}, {0x11660, 0x1166C},
    {0x116B9, 0x116B9}, {0x1183B, 0x1183B}, {0x11944, 0x11946}, {0x119E2, 0x119E2}, {0x11A3F, 0x11A46},
    {0x11A9A, 0x11A9C}, {0x11A9E, 0x11AA2}, {0x11B00, 0x11B09}, {0x11C41, 0x11C45}, {0x11C70, 0x11C71},
    {0x11EF7, 0x11EF8}, {0x11F43, 0x11F4F}, {0x11FFF, 0x11FFF}, {0x12FF1, 0x12FF2}, {0x16E97, 0x16E9A},
    {0x16FE2, 0x16FE2}, {0x1E95E, 0x1E95F}};

// Mn of Unicode 15 that the older table does not hold.
constexpr Range kNotNonspacing[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8E1},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},
    {0xB55, 0xB55},     {0xC04, 0xC04},     {0xC3C, 0xC3C},     {0xD00, 0xD00},     {0xD3B, 0xD3C},
    {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x180F, 0x180F},   {0x1885, 0x1886},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFB},   {0xA82C, 0xA82C},   {0xA8C5, 0xA8C5},   {0xA8FF, 0xA8FF},
    {0xA9BD, 0xA9BD},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x11073, 0x11074}, {0x110C2, 0x110C2}, {0x111C9, 0x111C9},
    {0x111CF, 0x111CF}, {0x1123E, 0x1123E}, {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x11438, 0x1143F},
    {0x11442, 0x11444}, {0x11446, 0x11446}, {0x1145E, 0x1145E}, {0x1182F, 0x11837}, {0x11839, 0x1183A},
    {0x1193B, 0x1193C}, {0x1193E, 0x1193E}, {0x11943, 0x11943}, {0x119D4, 0x119D7}, {0x119DA, 0x119DB},
    {0x119E0, 0x119E0}, {0x11A01, 0x11A0A}, {0x11A33, 0x11A38}, {0x11A3B, 0x11A3E}, {0x11A47, 0x11A47},
    {0x11A51, 0x11A56}, {0x11A59, 0x11A5B}, {0x11A8A, 0x11A96}, {0x11A98, 0x11A99}, {0x11C30, 0x11C36},
    {0x11C38, 0x11C3D}, {0x11C3F, 0x11C3F}, {0x11C92, 0x11CA7}, {0x11CAA, 0x11CB0}, {0x11CB2, 0x11CB3},
    {0x11CB5, 0x11CB6}, {0x11D31, 0x11D36}, {0x11D3A, 0x11D3A}, {0x11D3C, 0x11D3D}, {0x11D3F, 0x11D45},
    {0x11D47, 0x11D47}, {0x11D90, 0x11D91}, {0x11D95, 0x11D95}, {0x11D97, 0x11D97}, {0x11EF3, 0x11EF4},
    {0x11F00, 0x11F01}, {0x11F36, 0x11F3A}, {0x11F40, 0x11F40}, {0x11F42, 0x11F42}, {0x13440, 0x13440},
    {0x13447, 0x13455}, {0x16F4F, 0x16F4F}, {0x16FE4, 0x16FE4}, {0x1CF00, 0x1CF2D}, {0x1CF30, 0x1CF46},
    {0x1E000, 0x1E006}, {0x1E008, 0x1E018}, {0x1E01B, 0x1E021}, {0x1E023, 0x1E024}, {0x1E026, 0x1E02A},
    {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
    {0x1E944, 0x1E94A}};

// Combining characters of Unicode 15 that the older table takes for starters.
constexpr Range kStarter[] = {{0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
                              {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},
                              {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0x10D24, 0x10D27},
                              {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85},
                              {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
                              {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34},
                              {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45},
                              {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F},
                              {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}};

// M* of Unicode 15 that the older table does not hold (StripAccents).
constexpr Range kNotCombining[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},
    {0xB55, 0xB55},     {0xC04, 0xC04},     {0xC3C, 0xC3C},     {0xCF3, 0xCF3},     {0xD00, 0xD00},
    {0xD3B, 0xD3C},     {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x1715, 0x1715},
    {0x180F, 0x180F},   {0x1ABF, 0x1ACE},   {0x1CF7, 0x1CF7},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},
    {0xA8FF, 0xA8FF},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x11073, 0x11074}, {0x110C2, 0x110C2}, {0x11145, 0x11146},
    {0x111C9, 0x111C9}, {0x111CE, 0x111CF}, {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E},
    {0x1182C, 0x1183A}, {0x11930, 0x11935}, {0x11937, 0x11938}, {0x1193B, 0x1193E}, {0x11940, 0x11940},
    {0x11942, 0x11943}, {0x119D1, 0x119D7}, {0x119DA, 0x119E0}, {0x119E4, 0x119E4}, {0x11A01, 0x11A0A},
    {0x11A33, 0x11A39}, {0x11A3B, 0x11A3E}, {0x11A47, 0x11A47}, {0x11A51, 0x11A5B}, {0x11A8A, 0x11A99},
    {0x11D31, 0x11D36}, {0x11D3A, 0x11D3A}, {0x11D3C, 0x11D3D}, {0x11D3F, 0x11D45}, {0x11D47, 0x11D47},
    {0x11D8A, 0x11D8E}, {0x11D90, 0x11D91}, {0x11D93, 0x11D97}, {0x11EF3, 0x11EF6}, {0x11F00, 0x11F01},
    {0x11F03, 0x11F03}, {0x11F34, 0x11F3A}, {0x11F3E, 0x11F42}, {0x13440, 0x13440}, {0x13447, 0x13455},
    {0x16F4F, 0x16F4F}, {0x16F7F, 0x16F87}, {0x16FE4, 0x16FE4}, {0x16FF0, 0x16FF1}, {0x1CF00, 0x1CF2D},
    {0x1CF30, 0x1CF46}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF}};

// Compatibility decompositions of Unicode 15 that the older table does not hold.
constexpr Range kNotCompatible[] = {{0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xAB69, 0xAB69},
                                    {0x10781, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA},
                                    {0x1E030, 0x1E06D}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};

// L* of Unicode 16, unassigned in 15.
constexpr Range kNewLetters[] = {
    {0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3}, {0x10D4A, 0x10D65},
    {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x11380, 0x11389}, {0x1138B, 0x1138B}, {0x1138E, 0x1138E},
    {0x11390, 0x113B5}, {0x113B7, 0x113B7}, {0x113D1, 0x113D1}, {0x113D3, 0x113D3}, {0x11BC0, 0x11BE0},
    {0x13460, 0x143FA}, {0x16100, 0x1611D}, {0x16D40, 0x16D6C}, {0x18CFF, 0x18CFF}, {0x1E5D0, 0x1E5ED},
    {0x1E5F0, 0x1E5F0}, {0x2EBF0, 0x2EE5D}};

// N* of Unicode 16, unassigned in 15.
constexpr Range kNewNumbers[] = {{0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9},
                                 {0x16130, 0x16139}, {0x16D70, 0x16D79}, {0x1CCF0, 0x1CCF9},
                                 {0x1E5F1, 0x1E5FA}};

// N* of Unicode 17, unassigned in 16.
constexpr Range kNewestNumbers[] = {{0x11DE0, 0x11DE9}, {0x16FF4, 0x16FF6}};

// Word characters of Unicode 16, unassigned in 15.
constexpr Range kNewWordCharacters[] = {
    {0x897, 0x897},     {0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3},
    {0x10D40, 0x10D65}, {0x10D69, 0x10D6D}, {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x10EFC, 0x10EFC},
    {0x11380, 0x11389}, {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5}, {0x113B7, 0x113C0},
    {0x113C2, 0x113C2}, {0x113C5, 0x113C5}, {0x113C7, 0x113CA}, {0x113CC, 0x113D3}, {0x113E1, 0x113E2},
    {0x116D0, 0x116E3}, {0x11BC0, 0x11BE0}, {0x11BF0, 0x11BF9}, {0x11F5A, 0x11F5A}, {0x13460, 0x143FA},
    {0x16100, 0x16139}, {0x16D40, 0x16D6C}, {0x16D70, 0x16D79}, {0x18CFF, 0x18CFF}, {0x1CCF0, 0x1CCF9},
    {0x1E5D0, 0x1E5FA}, {0x2EBF0, 0x2EE5D}};

// Upper case letters of Unicode 16 and 17.
struct LowerCaseRange {
  int32_t first;
  int32_t last;
  int32_t first_lower;
};
constexpr LowerCaseRange kLowerCase[] = {{0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},
                                         {0xA7CC, 0xA7CC, 0xA7CD},    {0xA7CE, 0xA7CE, 0xA7CF},
                                         {0xA7D2, 0xA7D2, 0xA7D3},    {0xA7D4, 0xA7D4, 0xA7D5},
                                         {0xA7DA, 0xA7DA, 0xA7DB},    {0xA7DC, 0xA7DC, 0x19B},
                                         {0x10D50, 0x10D65, 0x10D70}, {0x16EA0, 0x16EB8, 0x16EBB}};

bool contains(std::span<const Range> ranges, int32_t code_point) {
  auto range = std::ranges::lower_bound(ranges, code_point, {}, &Range::last);
  return range != ranges.end() && range->first <= code_point;
}

utf8proc_category_t category(int32_t code_point) {
  return utf8proc_category(code_point);
}

}  // namespace

bool is_control(int32_t code_point) {
  if (code_point == '\t' || code_point == '\n' || code_point == '\r') return false;
  switch (category(code_point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CO:
      return true;
    case UTF8PROC_CATEGORY_CF:
      return !contains(kNotControl, code_point);
    default:
      return false;
  }
}

bool is_whitespace(int32_t code_point) {
  if (code_point < 0x80) return code_point == ' ' || (code_point >= '\t' && code_point <= '\r');
  switch (code_point) {
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000:
      return true;
    default:
      return code_point >= 0x2000 && code_point <= 0x200A;
  }
}

bool is_punctuation(int32_t code_point) {
  if (code_point < 0x80) {
    const int lower = code_point | 0x20;
    return code_point > ' ' && code_point < 0x7F && !(code_point >= '0' && code_point <= '9') &&
           !(lower >= 'a' && lower <= 'z');
  }
  const utf8proc_category_t c = category(code_point);
  if (c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO) return !contains(kNotPunctuation, code_point);
  // Punctuation in the older table, since moved to other categories.
  return code_point == 0x166D || code_point == 0x111C9;
}

bool is_chinese(int32_t code_point) {
  constexpr Range kBlocks[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},  {0x20000, 0x2A6DF},
                               {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  return code_point >= 0x3400 && contains(kBlocks, code_point);
}

bool is_nonspacing_mark(int32_t code_point) {
  if (category(code_point) == UTF8PROC_CATEGORY_MN) return !contains(kNotNonspacing, code_point);
  // Hanunoo sign pamudpod: Mn in the older table, now Mc.
  return code_point == 0x1734;
}

bool is_word_character(int32_t code_point) {
  switch (category(code_point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    case UTF8PROC_CATEGORY_CN:
      return contains(kNewWordCharacters, code_point);
    default:
      break;
  }
  // Join_Control, and the circled and squared letters, which are symbols that Unicode calls alphabetic.
  constexpr Range kOthers[] = {
      {0x200C, 0x200D}, {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
  return contains(kOthers, code_point);
}

bool is_letter(int32_t code_point) {
  const utf8proc_category_t c = category(code_point);
  if (c == UTF8PROC_CATEGORY_CN) return contains(kNewLetters, code_point);
  return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool is_number(int32_t code_point) {
  const utf8proc_category_t c = category(code_point);
  if (c == UTF8PROC_CATEGORY_CN) return contains(kNewNumbers, code_point);
  return c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO;
}

bool is_numeric(int32_t code_point) {
  return is_number(code_point) || contains(kNewestNumbers, code_point);
}

bool is_combining_mark(int32_t code_point) {
  const utf8proc_category_t c = category(code_point);
  if (c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME) return !contains(kNotCombining, code_point);
  // Vedic signs: Mc in the older table, now Lo.
  return code_point == 0x1CF2 || code_point == 0x1CF3;
}

int canonical_combining_class(int32_t code_point) {
  const int combining_class = utf8proc_get_property(code_point)->combining_class;
  return combining_class != 0 && contains(kStarter, code_point) ? 0 : combining_class;
}

CodePoints canonical_decomposition(int32_t code_point) {
  CodePoints result{{code_point}, 1};
  // U+11938 decomposes since Unicode 13.
  const bool hangul = code_point >= 0xAC00 && code_point <= 0xD7A3;
  if (code_point < 0xC0 || code_point == 0x11938) return result;
  if (!hangul && utf8proc_get_property(code_point)->decomp_seqindex == UINT16_MAX) return result;
  int boundary_class = 0;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  result.count = static_cast<int>(utf8proc_decompose_char(code_point, result.values.data(),
                                                          static_cast<utf8proc_ssize_t>(result.values.size()),
                                                          options, &boundary_class));
  return result;
}

LongCodePoints compatibility_decomposition(int32_t code_point) {
  LongCodePoints result{{code_point}, 1};
  const bool hangul = code_point >= 0xAC00 && code_point <= 0xD7A3;
  if (code_point < 0xA0 || code_point == 0x11938 || contains(kNotCompatible, code_point)) return result;
  if (!hangul && utf8proc_get_property(code_point)->decomp_seqindex == UINT16_MAX) return result;
  int boundary_class = 0;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  result.count = static_cast<int>(utf8proc_decompose_char(code_point, result.values.data(),
                                                          static_cast<utf8proc_ssize_t>(result.values.size()),
                                                          options, &boundary_class));
  return result;
}

namespace {

using Composition = std::pair<uint64_t, int32_t>;  // first << 32 | second, and what they compose to

uint64_t pair_key(int32_t first, int32_t second) {
  return static_cast<uint64_t>(first) << 32 | static_cast<uint32_t>(second);
}

// The composing pairs, derived from the full decompositions since utf8proc does not export them: the last
// code point of a decomposition joins the composition of the others, so shorter decompositions come first.
std::vector<Composition> make_compositions() {
  std::array<std::vector<int32_t>, 5> composites;  // by length of the decomposition
  // No code point above these composes: ideographs for compatibility decompose into one.
  for (int32_t c = 0xC0; c < 0x20000; ++c) {
    const utf8proc_property_t* property = utf8proc_get_property(c);
    if (property->decomp_seqindex == UINT16_MAX || property->decomp_type != 0 || property->comp_exclusion)
      continue;
    const CodePoints parts = canonical_decomposition(c);
    // What begins with a mark is left apart, as Unicode says.
    if (parts.count >= 2 && canonical_combining_class(parts.values[0]) == 0)
      composites[static_cast<size_t>(parts.count)].push_back(c);
  }
  std::vector<Composition> compositions;
  for (size_t length = 2; length < composites.size(); ++length) {
    std::vector<Composition> longer;
    for (const int32_t c : composites[length]) {
      const CodePoints parts = canonical_decomposition(c);
      int32_t first = parts.values[0];
      for (size_t i = 1; i + 1 < length && first >= 0; ++i) {
        const auto known =
            std::ranges::find(compositions, pair_key(first, parts.values[i]), &Composition::first);
        first = known == compositions.end() ? -1 : known->second;
      }
      if (first >= 0) longer.emplace_back(pair_key(first, parts.values[length - 1]), c);
    }
    compositions.insert(compositions.end(), longer.begin(), longer.end());
  }
  std::ranges::sort(compositions);
  return compositions;
}

const std::vector<Composition>& compositions() {
  static const std::vector<Composition> made = make_compositions();
  return made;
}

}  // namespace

bool is_composing_starter(int32_t code_point) {
  static const std::vector<int32_t> starters = [] {
    std::vector<int32_t> seconds;
    for (const auto& [key, composed] : compositions()) {
      const auto second = static_cast<int32_t>(key & 0xFFFFFFFF);
      if (canonical_combining_class(second) == 0) seconds.push_back(second);
    }
    std::ranges::sort(seconds);
    seconds.erase(std::ranges::unique(seconds).begin(), seconds.end());
    return seconds;
  }();
  return (code_point >= 0x1161 && code_point < 0x1176) || (code_point > 0x11A7 && code_point < 0x11C3) ||
         std::ranges::binary_search(starters, code_point);
}

int32_t canonical_composition(int32_t first, int32_t second) {
  // Hangul: leading consonant + vowel, syllable without a final + final consonant.
  if (first >= 0x1100 && first < 0x1113 && second >= 0x1161 && second < 0x1176)
    return 0xAC00 + ((first - 0x1100) * 21 + (second - 0x1161)) * 28;
  if (first >= 0xAC00 && first <= 0xD7A3 && (first - 0xAC00) % 28 == 0 && second > 0x11A7 && second < 0x11C3)
    return first + (second - 0x11A7);
  const uint64_t key = pair_key(first, second);
  const auto found = std::ranges::lower_bound(compositions(), key, {}, &Composition::first);
  return found != compositions().end() && found->first == key ? found->second : -1;
}

CodePoints lower_case(int32_t code_point) {
  // The one code point with a lower case of two.
  if (code_point == 0x130) return {{'i', 0x307}, 2};
  const int32_t lower = utf8proc_tolower(code_point);
  if (lower == code_point && code_point >= kLowerCase[0].first) {
    const auto* range = std::ranges::lower_bound(kLowerCase, code_point, {}, &LowerCaseRange::last);
    if (range != std::end(kLowerCase) && range->first <= code_point)
      return {{range->first_lower + (code_point - range->first)}, 1};
  }
  return {{lower}, 1};
}

}  // namespace shoehorn

#include "report/html_style.h"

#include <fmt/format.h>

#include <string>

namespace shoehorn {

// Neighbours in the list differ in lightness as well as in hue, for eyes that tell few hues apart.
const PagePalette kLightPalette = {
    .surface = "#ffffff",
    .ink = "#1c2128",
    .muted = "#57606a",
    .rule = "#d5dae0",
    .panel = "#f4f6f8",
    .series = {"#1f6fb8", "#d9622b", "#0b7a5c", "#b0478f", "#8a6a00", "#5a55c8", "#4f8f2f", "#6b7480"}};
const PagePalette kDarkPalette = {
    .surface = "#14181d",
    .ink = "#e6eaef",
    .muted = "#a3adb8",
    .rule = "#343c46",
    .panel = "#1d232a",
    .series = {"#5ba7ec", "#f0894f", "#3fb68f", "#dd84c2", "#d2ab3a", "#a19df5", "#8ccb6b", "#9aa4b0"}};

namespace {

std::string variables(const PagePalette& palette, const char* scheme) {
  std::string text =
      fmt::format("color-scheme:{};--surface:{};--ink:{};--muted:{};--rule:{};--panel:{};", scheme,
                  palette.surface, palette.ink, palette.muted, palette.rule, palette.panel);
  for (size_t i = 0; i < palette.series.size(); ++i) text += fmt::format("--c{}:{};", i, palette.series[i]);
  return text;
}

constexpr std::string_view kRules = R"(
*{box-sizing:border-box}
body{margin:0 auto;padding:24px 20px 64px;max-width:980px;background:var(--surface);color:var(--ink);
 font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
header{display:flex;gap:16px;align-items:flex-start;justify-content:space-between}
h1{font-size:26px;line-height:1.2;margin:0 0 4px;overflow-wrap:break-word}
h2{font-size:19px;margin:40px 0 8px;padding-bottom:4px;border-bottom:1px solid var(--rule)}
p{margin:8px 0;max-width:75ch;overflow-wrap:break-word}
.subtitle,figcaption,caption{color:var(--muted)}
button{font:inherit;font-size:13px;color:var(--ink);background:var(--panel);border:1px solid var(--rule);
 border-radius:6px;padding:4px 10px;cursor:pointer;white-space:nowrap}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(190px,1fr));gap:10px;margin:16px 0;padding:0}
.facts div{background:var(--panel);border-radius:8px;padding:10px 12px}
.facts dt{color:var(--muted);font-size:13px}
.facts dd{margin:0;font-size:19px;font-variant-numeric:tabular-nums;overflow-wrap:break-word}
.scroll{overflow-x:auto;margin:12px 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:14px}
caption{text-align:left;padding:4px 0;font-size:14px}
th,td{padding:4px 14px 4px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--rule)}
th{color:var(--muted);font-weight:600}
th.number,td.number{text-align:right;white-space:nowrap}
td:first-child{overflow-wrap:break-word}
figure{margin:16px 0 24px}
figcaption{font-size:13px;margin-top:2px;max-width:75ch}
pre{background:var(--panel);border-radius:8px;padding:12px;overflow-x:auto;font-size:13px;line-height:1.4}
.plot{display:block;max-width:100%;height:auto;font-size:12px}
.plot text{fill:var(--muted);font-variant-numeric:tabular-nums}
.plot .title{fill:var(--ink);font-size:14px;font-weight:600}
.plot .category,.plot .value,.plot .legend,.plot .marktext{fill:var(--ink)}
.plot .marktext,.plot .value{paint-order:stroke;stroke:var(--surface);stroke-width:3px;stroke-linejoin:round}
.grid{stroke:var(--rule);stroke-width:1}
.axis{stroke:var(--muted);stroke-width:1}
.mark{stroke:var(--ink);stroke-width:1;stroke-dasharray:4 3}
.line{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.dot{fill:var(--c)}
.touch{fill:var(--c);opacity:0}
.touch:hover{opacity:.6}
.area,.bar{fill:var(--c);stroke:var(--surface);stroke-width:.6}
.key{fill:var(--c)}
@media print{button{display:none}}
)";

constexpr std::string_view kScript = R"(
(function(){
var root=document.documentElement,button=document.getElementById('theme');
function dark(){return root.dataset.theme?root.dataset.theme==='dark'
 :matchMedia('(prefers-color-scheme: dark)').matches}
function name(){button.textContent=dark()?'Light':'Dark'}
button.addEventListener('click',function(){root.dataset.theme=dark()?'light':'dark';name()});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change',name);
name();button.hidden=false;
})();
)";

}  // namespace

std::string page_style() {
  std::string style = fmt::format(
      ":root{{{}}}\n@media(prefers-color-scheme:dark){{:root:not([data-theme=light]){{{}}}}}\n"
      ":root[data-theme=dark]{{{}}}\n",
      variables(kLightPalette, "light"), variables(kDarkPalette, "dark"), variables(kDarkPalette, "dark"));
  style += kRules;
  for (int64_t i = 0; i < kSeriesColors; ++i) style += fmt::format(".c{}{{--c:var(--c{})}}", i, i);
  return style + "\n";
}

std::string_view page_script() {
  return kScript;
}

}  // namespace shoehorn

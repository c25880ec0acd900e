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
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0 auto;padding:24px 20px 64px;max-width:980px;background:var(--surface);color:var(--ink);
 font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
header{display:flex;gap:16px;align-items:flex-start;justify-content:space-between}
header div{min-width:0}
h1{font-size:26px;line-height:1.2;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:19px;margin:40px 0 8px;padding-bottom:4px;border-bottom:1px solid var(--rule)}
p{margin:8px 0;max-width:75ch;overflow-wrap:anywhere}
.subtitle,figcaption,caption{color:var(--muted)}
.status{font-weight:600}
.status.alive::before{content:"";display:inline-block;width:9px;height:9px;margin-right:7px;border-radius:50%;
 background:var(--c2)}
#age{font-weight:400;color:var(--muted)}
button{font:inherit;font-size:13px;color:var(--ink);background:var(--panel);border:1px solid var(--rule);
 border-radius:6px;padding:4px 10px;cursor:pointer;white-space:nowrap}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(160px,1fr));gap:10px;margin:16px 0;padding:0}
.facts div{background:var(--panel);border-radius:8px;padding:10px 12px}
.facts dt{color:var(--muted);font-size:13px;overflow-wrap:anywhere}
.facts dd{margin:0;font-size:19px;line-height:1.3;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.scroll{overflow-x:auto;margin:12px 0}
table{border-collapse:separate;border-spacing:0;font-variant-numeric:tabular-nums;font-size:14px}
caption{text-align:left;padding:4px 0;font-size:14px}
th,td{padding:4px 8px;text-align:left;vertical-align:top;border-bottom:1px solid var(--rule)}
th:first-child,td:first-child{padding-left:0}
th{color:var(--muted);font-weight:600;vertical-align:bottom}
td{overflow-wrap:anywhere}
.wide td{overflow-wrap:break-word}
.wide th:first-child,.wide th:last-child{overflow-wrap:anywhere}
th.number,td.number{text-align:right}
td.number{white-space:nowrap}
.wide td:not(.number){min-width:8em}
.wide th:first-child,.wide td:first-child,.wide th:last-child,.wide td:last-child{position:sticky;z-index:1;
 background:var(--surface)}
.wide th:first-child,.wide td:first-child{left:0;max-width:min(34vw,20em);min-width:min(24vw,8em)}
.wide th:last-child,.wide td:last-child{right:0;max-width:min(30vw,24em);min-width:0;padding-right:0}
.flag{display:inline-block;max-width:100%}
figure{margin:16px 0 24px}
figcaption{font-size:13px;margin-top:2px;max-width:75ch}
pre{background:var(--panel);border-radius:8px;padding:12px;white-space:pre-wrap;overflow-wrap:anywhere;font-size:13px;
 line-height:1.4}
.plot{display:none;width:100%;height:auto;font-size:12px}
.plot text{fill:var(--muted);font-variant-numeric:tabular-nums}
.plot .title{fill:var(--ink);font-size:14px;font-weight:600}
.plot .category,.plot .value,.plot .legend,.plot .marktext{fill:var(--ink)}
.plot .marktext,.plot .value{paint-order:stroke;stroke:var(--surface);stroke-width:3px;stroke-linejoin:round}
.grid{stroke:var(--rule);stroke-width:1}
.axis{stroke:var(--muted);stroke-width:1}
.mark{stroke:var(--ink);stroke-width:1;stroke-dasharray:4 3}
.line{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.dot{fill:var(--c)}
.band{fill:var(--ink);opacity:0}
.band:hover{opacity:.1}
.area,.bar{fill:var(--c);stroke:var(--surface);stroke-width:.6}
.bar:hover,.dot:hover{stroke:var(--ink);stroke-width:1.5}
.key{fill:var(--c)}
.tip{position:fixed;z-index:3;pointer-events:none;white-space:pre-line;max-width:min(90vw,28em);padding:5px 9px;
 font-size:13px;line-height:1.35;font-variant-numeric:tabular-nums;color:var(--ink);background:var(--panel);
 border:1px solid var(--rule);border-radius:6px;box-shadow:0 2px 8px rgba(0,0,0,.25)}
@media(max-width:599px){body{padding:16px 16px 48px}h1{font-size:22px}}
@media(min-width:600px){td:first-child{overflow-wrap:break-word;max-width:60vw}}
@media print{button{display:none}}
)";

// Tells at once what the pointer rests on, in place of the browser's own title, which comes late and not where one taps; a
// page that loads itself anew keeps its place and its colours.
constexpr std::string_view kScript = R"(
(function(){
var root=document.documentElement,button=document.getElementById('theme'),kept={};
try{kept=sessionStorage}catch(e){}
if(kept.theme)root.dataset.theme=kept.theme;
function dark(){return root.dataset.theme?root.dataset.theme==='dark'
 :matchMedia('(prefers-color-scheme: dark)').matches}
function name(){button.textContent=dark()?'Light':'Dark'}
button.addEventListener('click',function(){kept.theme=root.dataset.theme=dark()?'light':'dark';name()});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change',name);
name();button.hidden=false;
var tip=document.createElement('div');tip.className='tip';tip.hidden=true;document.body.appendChild(tip);
function told(e){
 if(!e.closest||!e.closest('.plot'))return'';
 var title=e.querySelector(':scope>title');
 if(title){e.dataset.tip=title.textContent;title.remove()}
 return e.dataset.tip||''}
document.addEventListener('pointermove',function(e){
 var text=told(e.target);
 tip.hidden=!text;
 if(!text)return;
 tip.textContent=text;
 var box=tip.getBoundingClientRect(),x=e.clientX+14,y=e.clientY+14;
 if(x+box.width>innerWidth-4)x=Math.max(4,e.clientX-14-box.width);
 if(y+box.height>innerHeight-4)y=Math.max(4,e.clientY-14-box.height);
 tip.style.left=x+'px';tip.style.top=y+'px'});
document.addEventListener('pointerleave',function(){tip.hidden=true});
var age=document.getElementById('age');
if(!age)return;
function tell(){
 var s=Math.max(0,Math.round(Date.now()/1000-age.dataset.written));
 age.textContent='(written '+(s<120?s+' s':Math.round(s/60)+' min')+' ago)'}
tell();setInterval(tell,1000);
if(kept.place)scrollTo(0,kept.place);
addEventListener('pagehide',function(){kept.place=scrollY});
})();
)";

// From which width of the window on each drawing of a plot is shown: where the column is about as wide as the drawing.
constexpr std::array<int64_t, 3> kWindowWidths = {0, 600, 980};
static_assert(kWindowWidths.size() == kPlotWidths.size());
// A drawing grows by this at most, so that its texts do not become large.
constexpr double kMostGrowth = 1.3;

std::string plot_rules() {
  std::string rules;
  for (size_t i = 0; i < kPlotWidths.size(); ++i) {
    const std::string from = fmt::format("(min-width:{}px)", kWindowWidths[i]);
    const bool is_last = i + 1 == kPlotWidths.size();
    const std::string to = is_last ? "" : fmt::format(" and (max-width:{}.98px)", kWindowWidths[i + 1] - 1);
    rules += fmt::format("@media{}{}{{.w{}{{display:block;max-width:{}px}}}}\n", from, to, kPlotWidths[i],
                         kPlotWidths[i] * (is_last ? 1 : kMostGrowth));
  }
  return rules;
}

}  // namespace

std::string page_style() {
  std::string style = fmt::format(
      ":root{{{}}}\n@media(prefers-color-scheme:dark){{:root:not([data-theme=light]){{{}}}}}\n"
      ":root[data-theme=dark]{{{}}}\n",
      variables(kLightPalette, "light"), variables(kDarkPalette, "dark"), variables(kDarkPalette, "dark"));
  style += kRules;
  style += plot_rules();
  for (int64_t i = 0; i < kSeriesColors; ++i) style += fmt::format(".c{}{{--c:var(--c{})}}", i, i);
  return style + "\n";
}

std::string_view page_script() {
  return kScript;
}

}  // namespace shoehorn

#include "analysis/anatomy_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/plural.h"
#include "report/html_page.h"

namespace shoehorn {

namespace {

void add_memory(HtmlPage& page, const AreaChart& along_step, const MemoryAnatomy& memory) {
  page.add_heading("Memory");
  page.add_figure(draw(along_step),
                  "As planned: what lives while each operation runs, in the order in which they run.");
  HtmlTable parts{.caption = "At the peak of the step",
                  .columns = {{"part"}, {"memory", true}, {"bytes a parameter", true}, {"share", true}}};
  const auto share = [&](int64_t bytes) {
    return format_value(static_cast<double>(bytes) / static_cast<double>(memory.total_bytes), Unit::kShare);
  };
  const auto add = [&](const std::string& name, int64_t bytes) {
    parts.rows.push_back(
        {name, format_bytes(bytes),
         fmt::format("{:.2f}", static_cast<double>(bytes) /
                                   static_cast<double>(std::max<int64_t>(1, memory.parameters))),
         share(bytes)});
  };
  for (const NamedBytes& part : memory.parts) add(part.name, part.bytes);
  add("peak of the whole process", memory.total_bytes);
  if (memory.measured_bytes > 0) {
    parts.rows.push_back({"measured peak of the process", format_bytes(memory.measured_bytes), "", ""});
    const UnexplainedText unexplained = unexplained_text(memory);
    parts.rows.push_back({"not accounted for", unexplained.bytes, "", unexplained.share});
  }
  page.add_table(parts);
  HtmlTable components{.caption = "By component",
                       .columns = {{"component"}, {"memory", true}, {"share", true}}};
  for (const NamedBytes& component : memory.components_of_all_layers)
    components.rows.push_back({component.name, format_bytes(component.bytes), share(component.bytes)});
  page.add_table(components);
  HtmlTable alive{.caption = fmt::format("Alive at the peak: {}", memory.peak_node),
                  .columns = {{""}, {"memory", true}}};
  for (const NamedBytes& buffer : memory.alive_at_peak)
    alive.rows.push_back({buffer.name, format_bytes(buffer.bytes)});
  page.add_table(alive);
}

HtmlTable operations_table(const OperationAnatomy& operations) {
  const ClassWork total = total_of(operations);
  HtmlTable table{.caption = fmt::format(
                      "Operations of a step: {:.3g} Tflop, {} read and written{}", total.flops / 1e12,
                      format_bytes(static_cast<int64_t>(total.bytes)),
                      operations.is_measured ? ", " + format_value(total.seconds, Unit::kSeconds) : ""),
                  .columns = {{"class"}, {"flops", true}, {"bytes", true}}};
  if (operations.has_floor) table.columns.push_back({"at least", true});
  if (operations.is_measured) table.columns.push_back({"time", true});
  const bool compares = operations.is_measured && operations.has_floor;
  if (compares) table.columns.push_back({"times the floor", true});
  const auto share = [](double part, double whole) {
    return format_value(part / std::max(whole, 1e-300), Unit::kShare);
  };
  const auto add = [&](std::string_view name, const ClassWork& work) {
    std::vector<std::string> row = {std::string(name), share(work.flops, total.flops),
                                    share(work.bytes, total.bytes)};
    if (operations.has_floor) row.push_back(format_value(work.floor_seconds, Unit::kSeconds));
    if (operations.is_measured) row.push_back(share(work.seconds, total.seconds));
    if (compares)
      row.push_back(work.floor_seconds > 0 ? fmt::format("{:.1f}", work.seconds / work.floor_seconds) : "");
    table.rows.push_back(std::move(row));
  };
  for (const ClassWork& work : operations.classes) add(op_class_name(work.op_class), work);
  add("the step", total);
  return table;
}

void add_operations(HtmlPage& page, const OperationAnatomy& operations) {
  page.add_heading("Operations");
  const ClassWork total = total_of(operations);
  BarChart shares{.title = "Shares of a step, by class of operation",
                  .layout = BarLayout::kStacked,
                  .axis = {.unit = Unit::kShare, .from_zero = true}};
  shares.categories = {"flops", "bytes"};
  if (operations.is_measured) shares.categories.emplace_back("time");
  for (const ClassWork& work : operations.classes) {
    BarSeries series{std::string(op_class_name(work.op_class)),
                     {work.flops / std::max(1.0, total.flops), work.bytes / std::max(1.0, total.bytes)}};
    if (operations.is_measured) series.values.push_back(work.seconds / total.seconds);
    shares.series.push_back(std::move(series));
  }
  page.add_figure(draw(shares), "Bytes cross the memory bus once for each operand where nothing is cached.");
  page.add_table(operations_table(operations));
  if (operations.has_floor)
    page.add_paragraph(
        "At least: flops at the rate that large products reach on this machine, bytes at the memory's.");
  if (operations.backward.flops > 0) {
    std::string text = fmt::format("Contractions, backward to forward: {:.2f} × the flops",
                                   operations.backward.flops / operations.forward.flops);
    if (operations.is_measured && operations.forward.seconds > 0)
      text += fmt::format(", {:.2f} × the time", operations.backward.seconds / operations.forward.seconds);
    page.add_paragraph(text + ".");
  }
}

// Nothing of one rank.
void add_traffic(HtmlPage& page, const StepTraffic& traffic) {
  if (traffic.kinds.empty()) return;
  page.add_heading("Messages");
  HtmlTable table{.caption = "Sent in a step by a rank",
                  .columns = {{"method"}, {"calls", true}, {"messages", true}, {"bytes", true}}};
  if (traffic.has_several_hosts) {
    table.columns.push_back({fmt::format("rank {} within its host", traffic.rank), true});
    table.columns.push_back({fmt::format("rank {} between hosts", traffic.rank), true});
  }
  const auto shown = [](double bytes) { return format_bytes(static_cast<int64_t>(bytes)); };
  for (const RankTraffic& kind : traffic.kinds) {
    std::vector<std::string> row = {kind.name, fmt::format("{:.0f}", kind.runs),
                                    fmt::format("{:.0f}", kind.messages), shown(kind.bytes)};
    if (traffic.has_several_hosts) {
      row.push_back(shown(kind.within_host_bytes));
      row.push_back(shown(kind.between_hosts_bytes));
    }
    table.rows.push_back(std::move(row));
  }
  page.add_table(table);
  if (traffic.has_several_hosts) {
    page.add_paragraph(fmt::format("A host has {}. No rank sends more between hosts than rank {}.",
                                   plural(traffic.ranks_of_host, "rank"), traffic.rank));
  }
}

}  // namespace

std::string anatomy_page(const std::string& title, const std::string& subtitle,
                         const AreaChart& memory_along_step, const MemoryAnatomy& memory,
                         const OperationAnatomy& operations, const StepTraffic& traffic) {
  HtmlPage page(title, subtitle);
  std::vector<std::pair<std::string, std::string>> facts = {
      {"parameters", format_count(memory.parameters)},
      {"peak of the process, predicted", format_bytes(memory.total_bytes)}};
  if (memory.measured_bytes > 0) facts.emplace_back("measured", format_bytes(memory.measured_bytes));
  page.add_facts(facts);
  add_memory(page, memory_along_step, memory);
  add_operations(page, operations);
  add_traffic(page, traffic);
  return page.html();
}

}  // namespace shoehorn

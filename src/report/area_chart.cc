#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/framed_chart.h"
#include "report/html_page.h"

namespace shoehorn {

namespace {

constexpr double kBandWidth = 8;  // least width of a stretch that shows its values

// Where position i begins and where the last one ends.
double edge(const AreaChart& chart, size_t i) {
  const size_t count = chart.x.size();
  if (i < count) return chart.x[i];
  return chart.x[count - 1] + (count > 1 ? chart.x[count - 1] - chart.x[count - 2] : 1);
}

double sum_at(const AreaChart& chart, size_t position) {
  double sum = 0;
  for (const AreaLayer& layer : chart.layers) {
    if (std::isfinite(layer.values[position])) sum += layer.values[position];
  }
  return sum;
}

// A stretch of the x axis that is drawn as one step: the position in it with the largest sum stands for it.
struct Step {
  double left, right;  // pixels
  size_t position;
};

std::vector<Step> steps_of(const AreaChart& chart, const svg::Frame& frame) {
  std::vector<Step> steps;
  for (size_t i = 0; i < chart.x.size(); ++i) {
    const double left = frame.x_at(edge(chart, i));
    const double right = frame.x_at(edge(chart, i + 1));
    if (!steps.empty() && std::floor(steps.back().left) == std::floor(left)) {
      steps.back().right = right;
      if (sum_at(chart, i) > sum_at(chart, steps.back().position)) steps.back().position = i;
    } else {
      steps.push_back({left, right, i});
    }
  }
  return steps;
}

// The outline of a layer along the steps, to the right or back to the left.
std::string outline(const svg::Frame& frame, const std::vector<Step>& steps,
                    const std::vector<double>& heights, bool is_forward) {
  std::string path;
  double last_y = 0;
  for (size_t k = 0; k < steps.size(); ++k) {
    const size_t i = is_forward ? k : steps.size() - 1 - k;
    const double y = frame.y_at(heights[i]);
    const double from = is_forward ? steps[i].left : steps[i].right;
    if (k == 0) {
      path += fmt::format("{}{} {}", is_forward ? 'M' : 'L', svg::number(from), svg::number(y));
    } else if (y != last_y) {
      path += fmt::format("H{}V{}", svg::number(from), svg::number(y));
    }
    last_y = y;
  }
  const double end = is_forward ? steps.back().right : steps.front().left;
  return path + "H" + svg::number(end);
}

std::string draw_layer(const AreaChart& chart, const svg::Frame& frame, const std::vector<Step>& steps,
                       std::vector<double>& base, size_t index) {
  const AreaLayer& layer = chart.layers[index];
  std::vector<double> top = base;
  for (size_t i = 0; i < steps.size(); ++i) {
    const double value = layer.values[steps[i].position];
    if (std::isfinite(value)) top[i] += value;
  }
  std::string path = outline(frame, steps, top, true) + outline(frame, steps, base, false);
  base = std::move(top);
  return fmt::format("<path d=\"{}Z\" class=\"area {}\"/>\n", path, svg::color_class(index));
}

std::string tooltip(const AreaChart& chart, size_t position) {
  std::string text =
      fmt::format("{} {}: {}", chart.x_axis.title, format_value(chart.x[position], chart.x_axis.unit),
                  format_value(sum_at(chart, position), chart.y_axis.unit));
  for (auto layer = chart.layers.rbegin(); layer != chart.layers.rend();
       ++layer) {  // as they lie on each other
    const double value = layer->values[position];
    if (std::isfinite(value) && value > 0)
      text += fmt::format("\n{}: {}", layer->name, format_value(value, chart.y_axis.unit));
  }
  return text;
}

// Stretches of the x axis; each tells the largest of its steps.
std::string bands(const AreaChart& chart, const svg::Frame& frame, const std::vector<Step>& steps) {
  std::string body;
  for (size_t begin = 0; begin < steps.size();) {
    size_t end = begin;
    size_t largest = steps[begin].position;
    while (end < steps.size() && (end == begin || steps[end].right <= steps[begin].left + kBandWidth)) {
      if (sum_at(chart, steps[end].position) > sum_at(chart, largest)) largest = steps[end].position;
      ++end;
    }
    body += svg::band(frame, steps[begin].left, steps[end - 1].right, tooltip(chart, largest));
    begin = end;
  }
  return body;
}

}  // namespace

std::string draw(const AreaChart& chart) {
  return svg::for_each_width([&chart](double width) { return draw(chart, width); });
}

std::string draw(const AreaChart& chart, double width) {
  AxisRange x_range(chart.x_axis);
  AxisRange y_range(chart.y_axis);
  std::vector<std::string> names;
  for (const AreaLayer& layer : chart.layers) {
    CHECK(layer.values.size() == chart.x.size(), "layer {} has {} values for {} positions", layer.name,
          layer.values.size(), chart.x.size());
    names.push_back(layer.name);
  }
  if (!chart.x.empty() && !chart.layers.empty()) {
    x_range.add(edge(chart, 0));
    x_range.add(edge(chart, chart.x.size()));
    y_range.add(0);
    for (size_t i = 0; i < chart.x.size(); ++i) y_range.add(sum_at(chart, i));
  }
  return svg::framed({chart.title, fmt::format("Layers, from below: {}", fmt::join(names, ", ")), names,
                      chart.x_axis, chart.y_axis, x_range, y_range, chart.marks},
                     width, [&](const svg::Frame& frame) {
                       const std::vector<Step> steps = steps_of(chart, frame);
                       std::vector<double> base(steps.size(), 0);
                       svg::FramedBody body;
                       for (size_t i = 0; i < chart.layers.size(); ++i)
                         body.below += draw_layer(chart, frame, steps, base, i);
                       body.above = bands(chart, frame, steps);
                       return body;
                     });
}

}  // namespace shoehorn

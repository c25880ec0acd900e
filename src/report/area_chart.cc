#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/html_page.h"
#include "report/svg.h"

namespace shoehorn {

namespace {

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

std::string draw_layer(const AreaChart& chart, const svg::Frame& frame, const std::vector<Step>& steps,
                       std::vector<double>& base, size_t index) {
  const AreaLayer& layer = chart.layers[index];
  std::string upper;
  std::string lower;
  for (size_t i = 0; i < steps.size(); ++i) {
    const double value = layer.values[steps[i].position];
    const double top = base[i] + (std::isfinite(value) ? value : 0);
    const auto point = [&](double x, double y) {
      return fmt::format("{} {}", svg::number(x), svg::number(frame.y_at(y)));
    };
    upper +=
        fmt::format("{}{}L{}", i == 0 ? 'M' : 'L', point(steps[i].left, top), point(steps[i].right, top));
    lower.insert(0, fmt::format("L{}L{}", point(steps[i].right, base[i]), point(steps[i].left, base[i])));
    base[i] = top;
  }
  return fmt::format("<path d=\"{}{}Z\" class=\"area {}\"><title>{}</title></path>\n", upper, lower,
                     svg::color_class(index), escape_html(layer.name));
}

}  // namespace

std::string draw(const AreaChart& chart) {
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
                     [&](const svg::Frame& frame) {
                       const std::vector<Step> steps = steps_of(chart, frame);
                       std::vector<double> base(steps.size(), 0);
                       std::string body;
                       for (size_t i = 0; i < chart.layers.size(); ++i)
                         body += draw_layer(chart, frame, steps, base, i);
                       return body;
                     });
}

}  // namespace shoehorn

#include "plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iomanip>
#include <sstream>

namespace kernel_bench {
namespace {

constexpr double margin = 20;
constexpr double heading = 50;  // height of a title
constexpr double panel_width = 460;
constexpr double bar_pitch = 22;
constexpr double label_width = 170;
constexpr double lines_height = 200;

/// People who do not see all colours can tell these apart, too (Wong, "Points of view: Color
/// blindness", 2011).
constexpr std::array colours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                             "#e69f00", "#56b4e9", "#000000", "#999999"};

/// The results of one variant in one precision, in the order of block sizes.
struct curve {
  std::string name;
  const char* colour;
  std::vector<const result*> points;

  const result& fastest() const {
    return **std::min_element(points.begin(), points.end(), [](const result* a, const result* b) {
      return a->time.us < b->time.us;
    });
  }
};

std::vector<curve> curves_of(const report& r) {
  std::vector<curve> curves;
  for (const result& one : r.results) {
    if (one.outcome != verdict::right) continue;
    std::string name = one.entry.variant;
    if (one.entry.arithmetic) name += std::string(" ") + to_string(*one.entry.arithmetic);
    auto found =
        std::find_if(curves.begin(), curves.end(), [&](const curve& c) { return c.name == name; });
    if (found == curves.end()) {
      curves.push_back({name, colours[curves.size() % colours.size()], {}});
      found = curves.end() - 1;
    }
    found->points.push_back(&one);
  }
  return curves;
}

/// Collects elements; positions are in pixels from the top left.
class drawing {
 public:
  drawing() { svg_ << std::fixed << std::setprecision(1); }

  void text(double x, double y, const std::string& content, const std::string& style = "") {
    svg_ << "<text x=\"" << x << "\" y=\"" << y << "\" " << style << ">" << content << "</text>\n";
  }
  void bar(double x, double y, double width, double height, const char* colour) {
    svg_ << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\""
         << height << "\" fill=\"" << colour << "\"/>\n";
  }
  void line(double x1, double y1, double x2, double y2, const char* colour, double width = 1) {
    svg_ << "<line x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2
         << "\" stroke=\"" << colour << "\" stroke-width=\"" << width << "\"/>\n";
  }
  void dot(double x, double y, const char* colour) {
    svg_ << "<circle cx=\"" << x << "\" cy=\"" << y << "\" r=\"3\" fill=\"" << colour << "\"/>\n";
  }

  std::string document(double width, double height) const {
    std::ostringstream text;
    text << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\""
         << height << "\" font-family=\"sans-serif\" font-size=\"12\">\n"
         << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
         << svg_.str() << "</svg>\n";
    return text.str();
  }

 private:
  std::ostringstream svg_;
};

std::string number(double value, int digits) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << value;
  return text.str();
}

void draw_bars(drawing& d, double top, const std::vector<curve>& curves, const char* unit) {
  double slowest = 0;
  for (const curve& c : curves) slowest = std::max(slowest, c.fastest().time.us);
  const double longest = panel_width - label_width - 150;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const result& r = curves[i].fastest();
    const double y = top + bar_pitch * static_cast<double>(i);
    const double width = longest * r.time.us / slowest;
    d.text(margin + label_width - 6, y + 13, curves[i].name, "text-anchor=\"end\"");
    d.bar(margin + label_width, y, width, bar_pitch - 6, curves[i].colour);
    d.text(margin + label_width + width + 6, y + 13,
           number(r.time.us, 1) + " us, " + number(r.rate, r.rate < 100 ? 1 : 0) + " " + unit);
  }
}

/// A block size's place on a logarithmic axis from 32 to 1024.
double place_of(int block_size) {
  return std::log2(block_size / 32.0) / 5;
}

void draw_curves(drawing& d, double top, const std::vector<curve>& curves, const char* unit) {
  const double left = margin + panel_width + 60;
  const double width = panel_width - 80;
  const double bottom = top + lines_height - 20;
  double fastest = 0;
  for (const curve& c : curves) fastest = std::max(fastest, c.fastest().rate);
  const auto x_of = [&](const result* r) { return left + width * place_of(r->entry.block_size); };
  const auto y_of = [&](double rate) { return bottom - (bottom - top) * rate / fastest; };

  d.line(left, bottom, left + width, bottom, "#888888");
  d.line(left, top, left, bottom, "#888888");
  for (const int block_size : {32, 64, 128, 256, 512, 1024}) {
    d.text(left + width * place_of(block_size), bottom + 16, std::to_string(block_size),
           "text-anchor=\"middle\"");
  }
  d.text(left - 6, bottom, "0", "text-anchor=\"end\"");
  d.text(left - 6, top + 10, number(fastest, fastest < 100 ? 1 : 0), "text-anchor=\"end\"");
  d.text(left - 6, top + 24, unit, "text-anchor=\"end\"");
  for (const curve& c : curves) {
    for (std::size_t i = 0; i < c.points.size(); ++i) {
      d.dot(x_of(c.points[i]), y_of(c.points[i]->rate), c.colour);
      if (i == 0) continue;
      d.line(x_of(c.points[i - 1]), y_of(c.points[i - 1]->rate), x_of(c.points[i]),
             y_of(c.points[i]->rate), c.colour, 2);
    }
  }
}

}  // namespace

std::string as_svg(const std::string& title, const std::vector<report>& reports) {
  drawing d;
  d.text(margin, margin + 10, title, "font-size=\"16\"");
  double top = heading;
  for (const report& r : reports) {
    const std::vector<curve> curves = curves_of(r);
    std::string shape;
    for (const auto& [name, value] : r.shape) shape += ", " + name + " " + std::to_string(value);
    d.text(margin, top + 14, r.operation + shape, "font-weight=\"bold\"");
    top += 30;
    if (curves.empty()) continue;
    draw_bars(d, top, curves, r.unit());
    draw_curves(d, top, curves, r.unit());
    top += std::max(lines_height + 20, bar_pitch * static_cast<double>(curves.size()) + 20);
  }
  return d.document(2 * panel_width + 2 * margin, top + margin);
}

}  // namespace kernel_bench

#include "tools/plot/image.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/error.h"
#include "tools/plot/font.h"

namespace heed::plot {

using autograd::ValueError;

Image::Image(int width, int height, Rgb color) : width_(width), height_(height) {
  constexpr int kLimit = 16384;
  check<ValueError>(width >= 1 && height >= 1 && width <= kLimit && height <= kLimit, "image",
                    "needs a width and height of 1 to ", kLimit, " pixels, got ", width, " x ",
                    height);
  pixels_.resize(3 * std::size_t(width) * std::size_t(height));
  rect(0, 0, width, height, color);
}

Rgb Image::at(int x, int y) const {
  check<ValueError>(x >= 0 && y >= 0 && x < width_ && y < height_, "image", "pixel (", x, ", ", y,
                    ") is outside of ", width_, " x ", height_);
  const auto i = 3 * (std::size_t(y) * std::size_t(width_) + std::size_t(x));
  return {pixels_[i], pixels_[i + 1], pixels_[i + 2]};
}

void Image::rect(int x, int y, int width, int height, Rgb color) {
  const int left = std::max(x, 0), right = std::min(x + width, width_);
  const int top = std::max(y, 0), bottom = std::min(y + height, height_);
  for (int row = top; row < bottom; ++row) {
    std::uint8_t* p = pixels_.data() + 3 * (std::ptrdiff_t(row) * width_ + left);
    for (int column = left; column < right; ++column) {
      *p++ = color.r;
      *p++ = color.g;
      *p++ = color.b;
    }
  }
}

void Image::line(double x0, double y0, double x1, double y1, Rgb color, double thickness) {
  if (!std::isfinite(x0 + y0 + x1 + y1)) return;
  const double reach = thickness / 2 + 0.5;
  const auto pixel = [](double v, int size) {  // clamps first: the conversion could overflow
    return int(std::floor(std::clamp(v, -1.0, double(size))));
  };
  const int left = pixel(std::min(x0, x1) - reach, width_);
  const int right = pixel(std::max(x0, x1) + reach, width_);
  const int top = pixel(std::min(y0, y1) - reach, height_);
  const int bottom = pixel(std::max(y0, y1) + reach, height_);
  const double dx = x1 - x0, dy = y1 - y0, length2 = dx * dx + dy * dy;
  for (int y = top; y <= bottom; ++y) {
    for (int x = left; x <= right; ++x) {
      // Opacity falls off over one pixel with the distance of the pixel's center to the segment.
      const double px = x + 0.5 - x0, py = y + 0.5 - y0;
      const double t = length2 > 0 ? std::clamp((px * dx + py * dy) / length2, 0.0, 1.0) : 0.0;
      blend(x, y, color, std::clamp(reach - std::hypot(px - t * dx, py - t * dy), 0.0, 1.0));
    }
  }
}

void Image::stroke(Pen& pen, Spot a, Spot b) {
  const std::vector<double>& pattern = dash_lengths(pen.dash);
  if (pattern.empty()) return line(a.x, a.y, b.x, b.y, pen.color, pen.thickness);
  const double length = std::hypot(b.x - a.x, b.y - a.y);
  double done = 0;
  while (done < length) {
    const double next = std::min(length, done + pattern[pen.part] - pen.in_part);
    const auto at = [&](double d) {
      return Spot{a.x + d / length * (b.x - a.x), a.y + d / length * (b.y - a.y)};
    };
    const Spot from = at(done), to = at(next);
    if (pen.part % 2 == 0) line(from.x, from.y, to.x, to.y, pen.color, pen.thickness);
    pen.in_part += next - done;
    done = next;
    if (pen.in_part < pattern[pen.part] - 1e-9) continue;
    pen.in_part = 0;
    pen.part = (pen.part + 1) % pattern.size();
  }
}

void Image::area(double x0, double low0, double high0, double x1, double low1, double high1,
                 Rgb color, double opacity) {
  if (!std::isfinite(x0 + low0 + high0 + x1 + low1 + high1) || !(x0 < x1)) return;
  const auto first_center = [this](double x) {  // first column whose center is at x or to its right
    return int(std::ceil(std::clamp(x, 0.0, double(width_)) - 0.5));
  };
  for (int x = first_center(x0), end = first_center(x1); x < end; ++x) {
    const double share = (x + 0.5 - x0) / (x1 - x0);
    const double a = low0 + share * (low1 - low0), b = high0 + share * (high1 - high0);
    const double top = std::clamp(std::min(a, b), 0.0, double(height_)),
                 bottom = std::clamp(std::max(a, b), 0.0, double(height_));
    for (int y = int(top); y < bottom; ++y)
      blend(x, y, color, opacity * (std::min(bottom, y + 1.0) - std::max(top, double(y))));
  }
}

void Image::text(int x, int y, std::string_view text, const TextStyle& style) {
  const TextMask mask = rasterize_text(text, style.size);
  if (mask.coverage.empty()) return;
  const int width = text_width(text, style.size);
  const int before = style.align == Align::kLeft     ? 0
                     : style.align == Align::kCenter ? width / 2
                                                     : width;
  const int along = mask.left - before, across = mask.top;  // offset of the letters from (x, y)
  for (int row = 0; row < mask.height; ++row) {
    for (int column = 0; column < mask.width; ++column) {
      const double opacity = mask.coverage[std::size_t(row * mask.width + column)] / 255.0;
      if (style.upward)
        blend(x + across + row, y - along - column - 1, style.color, opacity);
      else
        blend(x + along + column, y + across + row, style.color, opacity);
    }
  }
  TextBox box{visible_text(text), style.size, x + along, y + across, mask.width, mask.height};
  if (style.upward) {
    box.x = x + across, box.y = y - along - mask.width;
    std::swap(box.width, box.height);
  }
  text_boxes_.push_back(std::move(box));
}

void Image::blend(int x, int y, Rgb color, double opacity) {
  if (opacity <= 0 || x < 0 || y < 0 || x >= width_ || y >= height_) return;
  std::uint8_t* p = pixels_.data() + 3 * (std::ptrdiff_t(y) * width_ + x);
  const Rgb mixed = mix({p[0], p[1], p[2]}, color, opacity);
  p[0] = mixed.r, p[1] = mixed.g, p[2] = mixed.b;
}

}  // namespace heed::plot

#include "tools/plot/tick_labels.h"

#include <algorithm>

namespace heed::plot {
int label_step(double pitch, int extent) {
  for (int decade = 1;; decade *= 10) {
    for (const int factor : {1, 2, 5}) {
      const int step = factor * decade;
      if (step * pitch >= extent || step >= 100'000'000) return step;
    }
  }
}

TickLabels tick_labels(const std::vector<std::string>& tokens, int positions, double pitch,
                       bool horizontal, double size) {
  const int longest = int(9 * size);  // in pixels
  std::vector<std::string> all;
  for (int i = 0; i < positions; ++i)
    all.push_back(tokens.empty() ? std::to_string(i)
                                 : shorten_text(token_text(tokens[std::size_t(i)]), longest, size));
  // Along a horizontal axis, text is horizontal if it fits. If it does not fit, tokens are turned
  // upward. Numbers stay horizontal, but not every position has one.
  const int flat = text_width(all, size) + int(tokens.empty() ? size : size / 2);
  const int line = cap_height(size) + int(size / 3);
  TickLabels labels;
  labels.size = size;
  labels.upward = horizontal && !(tokens.empty() || flat <= pitch);
  const int extent = horizontal && !labels.upward ? flat : line;
  labels.step = label_step(pitch, extent);
  for (int i = 0; i < positions; i += labels.step) {
    labels.tokens.push_back(all[std::size_t(i)]);
    const bool numbered = !tokens.empty() && labels.step > 1;
    labels.numbers.push_back(numbered ? std::to_string(i) : "");
  }
  labels.number_width = text_width(labels.numbers, size);
  labels.token_width = text_width(labels.tokens, size);
  return labels;
}

void TickLabels::draw(Canvas& canvas, int i, int x, int y, bool horizontal) const {
  const std::string &number = numbers[std::size_t(i)], &token = tokens[std::size_t(i)];
  const int half = cap_height(size) / 2;
  if (horizontal && !upward) {
    canvas.text(x, y, token, {.size = size, .align = Align::kCenter});
    return;
  }
  const int number_end = token_width + gap();
  const TextStyle ink{.size = size, .align = Align::kRight, .upward = upward};
  TextStyle muted = ink;
  muted.color = kMuted;
  if (upward) {
    canvas.text(x - half, y, token, ink);
    canvas.text(x - half, y + number_end, number, muted);
  } else {
    canvas.text(x, y - half, token, ink);
    canvas.text(x - number_end, y - half, number, muted);
  }
}

}  // namespace heed::plot

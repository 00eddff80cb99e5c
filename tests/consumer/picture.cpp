// A program that draws a heat map with heed::plot. It checks that the picture is not empty.
#include <iostream>

#include "tools/plot/heatmap.h"

int main() {
  using namespace heed::plot;
  HeatmapGrid grid;
  grid.title = "weights";
  grid.panels = {{"L0H0", 2, 2, {1, 0, 0, 1}}};
  const Image image = draw_heatmap(grid);
  int drawn = 0;
  for (int y = 0; y < image.height(); ++y) {
    for (int x = 0; x < image.width(); ++x) drawn += image.at(x, y) == kWhite ? 0 : 1;
  }
  std::cout << image.width() << " x " << image.height() << " pixels, " << drawn << " drawn\n";
  return drawn > 100 ? 0 : 1;
}

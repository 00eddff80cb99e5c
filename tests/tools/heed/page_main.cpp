// A program for page_test.py: writes the page of a made-up study, whose texts try to be HTML, into
// a new directory.
#include <cmath>
#include <filesystem>

#include "tools/heed/study/page/page.h"

int main(int, char** argv) {
  using namespace heed;
  const std::string attack = "</script></title><script>window.broken=1</script><img src=x>";
  plot::HeatmapGrid grid{.title = attack,
                         .panels = {},
                         .panel_columns = 2,
                         .row_labels = {"^", attack, " "},
                         .col_labels = {"a", "b", "c"},
                         .row_axis = "query",
                         .col_axis = "key"};
  for (const int n : {1, 2}) {
    plot::Panel& p = grid.panels.emplace_back(
        plot::Panel{"L0H" + std::to_string(n - 1), 3, 3, {}, {0, 1, 1, 0, 0, 1, 0, 0, 0}});
    for (int i = 0; i < 9; ++i) p.values.push_back(float(n * (i % 2 == 0 ? i : -i)));
  }
  const plot::Network network{
      .title = "N", .nodes = {{"a", 0}, {"b", 1}}, .edges = {{"a", "b", "a:b", -6.5}}};
  const Page page{
      attack,
      {"The first line.\n  " + attack, "&lt; stays"},
      {{.key = "maps", .title = attack, .sentences = {attack}, .pictures = {{"A", grid}}},
       {.key = "edges",
        .title = "Edges",
        .tables = {{.columns = {{attack, "nats"}, {"effect", "", "{:.2f}"}},
                    .title = attack,
                    .note = attack,
                    .shown = 1,
                    .rows = {{attack, 0.125}, {"L0H1", std::nan("")}}}},
        .pictures = {{"network", network}}}}};
  ResultFolder folder(argv[1], "");
  write_page(folder, {.formats = {"png", "svg"}}, page);
  folder.complete();
}

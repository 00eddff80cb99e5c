#include "tools/heed/study/study_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "autograd/base/files.h"
#include "autograd/ops/ops.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

// Appends a row to `table` for each cell of an array [1, H, Tq, Tk].
void append_cells(std::string& table, std::string_view quantity, std::size_t layer,
                  const nn::Tensor& array) {
  const std::int64_t heads = array.size(1), queries = array.size(2), keys = array.size(3);
  const nn::Tensor all = contiguous(to(array, autograd::float32));
  const float* value = all.data<float>();
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t q = 0; q < queries; ++q)
      for (std::int64_t k = 0; k < keys; ++k)
        fmt::format_to(std::back_inserter(table), "{},{},{},{},{},{}\n", quantity, layer, h, q, k,
                       *value++);
}

}  // namespace

std::unique_ptr<nn::ResultFolder> open_study_folder(const std::string& out,
                                                    const fs::path& default_path, bool overwrite) {
  fs::path folder = out.empty() ? default_path : fs::path(out);
  const bool no_alternative = overwrite || !out.empty();
  for (int n = 2;; ++n) {
    try {
      auto study = std::make_unique<nn::ResultFolder>(folder, "study");
      if (overwrite && study->is_foreign())
        usage_error("--overwrite: {} contains files, but no study; choose another directory",
                    folder.string());
      if (overwrite || !study->holds_result()) {
        study->check_replaceable();
        return study;
      }
      if (no_alternative)
        usage_error(
            "--out {} already contains a study; choose another directory, or replace the study "
            "with --overwrite",
            out);
    } catch (const nn::FolderInUse& e) {
      if (no_alternative) throw UsageError(e.what());
    }
    folder = default_path.string() + fmt::format("-{}", n);
  }
}

std::string study_cells(const nn::Study& study) {
  constexpr std::int64_t kMostRows = 20'000'000;
  std::int64_t rows = 0;  // of the scores, the weights and their gradients
  for (const nn::LayerStudy& layer : study.layers) rows += 4 * layer.scores.numel();
  heed::check<autograd::ValueError>(rows <= kMostRows, "study", "a table of ", rows,
                                    " cells exceeds the limit of ", kMostRows,
                                    "; use fewer tokens");
  using L = nn::LayerStudy;
  std::string table = "quantity,layer,head,query,key,value\n";
  for (const nn::ArrayQuantity& q : nn::array_quantities()) {
    if (q.value != &L::scores && q.value != &L::pattern) continue;
    const std::string name(q.site.substr(std::string_view("attn.").size()));
    for (std::size_t l = 0; l < study.layers.size(); ++l) {
      append_cells(table, name, l, study.layers[l].*q.value);
      append_cells(table, name + "_grad", l, study.layers[l].*q.gradient);
    }
  }
  return table;
}

}  // namespace heed

#include "tools/heed/study/study_export.h"

#include <fmt/format.h>

#include <iterator>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "autograd/ops/ops.h"
#include "nn/io/npy.h"
#include "tools/heed/pictures.h"

namespace heed {
namespace {

// An array with queries and keys, and where it is from.
struct Cells {
  std::string_view quantity;
  std::size_t layer;
  nn::Tensor values;  // [1, H, Tq, Tk]
};

std::vector<Cells> cells_of(const nn::Study& s) {
  std::vector<Cells> all;
  for (std::size_t l = 0; l < s.layers.size(); ++l) {
    all.push_back({"hook_attn_scores", l, s.layers[l].scores});
    all.push_back({"hook_attn_scores_grad", l, s.layers[l].scores_grad});
  }
  for (std::size_t l = 0; l < s.layers.size(); ++l) {
    all.push_back({"hook_pattern", l, s.layers[l].pattern});
    all.push_back({"hook_pattern_grad", l, s.layers[l].pattern_grad});
  }
  return all;
}

void append_cells(std::string& table, const Cells& cells) {
  const std::int64_t heads = cells.values.size(1), queries = cells.values.size(2),
                     keys = cells.values.size(3);
  const nn::Tensor all = contiguous(to(cells.values, autograd::float32));
  const float* value = all.data<float>();
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t q = 0; q < queries; ++q)
      for (std::int64_t k = 0; k < keys; ++k)
        fmt::format_to(std::back_inserter(table), "{},{},{},{},{},{}\n", cells.quantity,
                       cells.layer, h, q, k, *value++);
}

}  // namespace

std::string study_cells(const nn::Study& study) {
  constexpr std::int64_t kMostRows = 20'000'000;
  const std::vector<Cells> all = cells_of(study);
  std::int64_t rows = 0;
  for (const Cells& cells : all) rows += cells.values.numel();
  heed::check<autograd::ValueError>(rows <= kMostRows, "study", "a table of ", rows,
                                    " cells is more than ", kMostRows,
                                    "; take --export npy, or fewer tokens");
  std::string table = "quantity,layer,head,query,key,value\n";
  for (const Cells& cells : all) append_cells(table, cells);
  return table;
}

std::vector<std::filesystem::path> export_study(const std::filesystem::path& folder,
                                                const nn::Study& study, StudyExport form) {
  if (form == StudyExport::kCsv) {
    const std::filesystem::path file = folder / "cells.csv";
    autograd::write_file(file.string(), study_cells(study));
    return {file};
  }
  std::vector<std::filesystem::path> files;
  make_folder(folder / "npy");
  for (const auto& [name, x] : to_named(study)) {
    files.push_back(folder / "npy" / (name + ".npy"));
    nn::save_npy(files.back().string(), x);
  }
  return files;
}

}  // namespace heed

#include "tools/heed/study/study_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "autograd/base/files.h"
#include "autograd/ops/ops.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/output.h"
#include "tools/heed/study/analysis.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

// A directory contains a study if it contains one of these files. Every kind of study (of one
// sequence, of two runs, over time, of circuits) writes at least one of them.
const std::vector<std::string> kStudyMarks = {"arrays.safetensors", "compare.csv", "over_time.csv",
                                              "circuits.safetensors", "report.html"};
// Other files that studies write. A directory that has only such files does not count as a study.
const std::vector<std::string> kOtherStudyFiles = {"over_time.json", "cells.csv"};
// Returns whether an analysis, or --over-time, draws a picture of this name, without its extension.
bool is_analysis_picture(const std::string& stem) {
  constexpr std::string_view kRepeated = "_over_time";  // KEY_over_time.png
  return stem == "over_time" || std::ranges::any_of(analyses(), [&](const Analysis* a) {
           return std::ranges::count(a->pictures, stem) > 0 ||
                  stem == std::string(a->key) + std::string(kRepeated);
         });
}

// Returns `name` with each number replaced by "N": "dS_LNHN.png" for "dS_L0H1.png".
std::string without_numbers(const std::string& name) {
  std::string text;
  for (const char c : name)
    if (c < '0' || c > '9')
      text += c;
    else if (!text.ends_with('N'))
      text += 'N';
  return text;
}

// Returns whether `name` is the name of a study's picture, such as "dS.png", "dS_L0H1.svg" or
// "dS_difference.png".
bool is_study_picture(const std::string& name) {
  if (!name.ends_with(".png") && !name.ends_with(".svg")) return false;
  const std::string stem = name.substr(0, name.size() - 4);
  return is_analysis_picture(stem) ||
         std::ranges::any_of(nn::map_quantities(), [&](const nn::MapQuantity& q) {
           const std::string map(q.picture.file);
           return !map.empty() && (stem == map || stem == map + "_difference" ||
                                   without_numbers(stem) == map + "_LNHN");
         });
}

// Returns whether `name` is the name of an array that an earlier commit exported, such as
// "npy/blocks.0.attn.hook_z_grad.npy".
bool is_study_array(const std::string& name) {
  return std::ranges::any_of(nn::array_quantities(), [&](const nn::ArrayQuantity& q) {
    const std::string array = (q.value ? "npy/blocks.N." : "npy/") + std::string(q.site);
    const std::string found = without_numbers(name);
    return found == array + ".npy" || found == array + "_grad.npy";
  });
}

bool is_study_file(const std::string& name) {
  return std::ranges::count(kStudyMarks, name) > 0 ||
         std::ranges::count(kOtherStudyFiles, name) > 0 || is_study_picture(name) ||
         is_study_array(name);
}

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

std::unique_ptr<nn::StagedFolder> open_study_folder(const std::string& out,
                                                    const fs::path& default_path, bool overwrite) {
  fs::path folder = out.empty() ? default_path : fs::path(out);
  const bool no_alternative = overwrite || !out.empty();
  for (int n = 2;; ++n) {
    try {
      auto study = std::make_unique<nn::StagedFolder>(
          folder, nn::ResultFiles{kStudyMarks, is_study_file, "npy"});
      if (overwrite || !study->holds_result()) {
        study->staging();
        return study;
      }
      if (no_alternative)
        usage_error(
            "--out {} already contains a study; choose another directory, or replace the study "
            "with "
            "--overwrite",
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

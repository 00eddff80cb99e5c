#include "tools/heed/study/study_folder.h"

#include <algorithm>
#include <iterator>
#include <system_error>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

// Inside the folder: a study that is being made; one that is whole and replaces the one before; one
// whose files move to their place.
constexpr const char *kWork = ".unfinished", *kWhole = ".finished", *kMoving = ".moving";
// Of any study, one of one sequence, of two runs or over time; the first four are always there.
constexpr const char* kStudyFiles[] = {"arrays.safetensors", "compare.csv",    "over_time.csv",
                                       "report.html",        "over_time.json", "over_time.png",
                                       "patching.png",       "cells.csv",      "by_distance.png"};
constexpr std::size_t kAlways = 4;
// Of a picture's name what stands before "", "_L0H1" or "_difference".
constexpr const char* kViews[] = {"weights", "dA", "dS"};

bool is_there(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored);
}

// A study is being made there, or was when its process was killed.
bool is_begun(const fs::path& folder) {
  return is_there(folder / kWork) || is_there(folder / kWhole) || is_there(folder / kMoving);
}

bool is_free(const fs::path& folder) {
  return std::none_of(kStudyFiles, kStudyFiles + kAlways,
                      [&](const char* file) { return is_there(folder / file); });
}

bool is_study_file(const std::string& name) {
  return std::find(std::begin(kStudyFiles), std::end(kStudyFiles), name) != std::end(kStudyFiles) ||
         std::any_of(std::begin(kViews), std::end(kViews), [&](const std::string& view) {
           return name == view + ".png" || name == view + "_difference.png" ||
                  (name.starts_with(view + "_L") && name.ends_with(".png"));
         });
}

// Leaves alone what is not heed's.
void remove_study(const fs::path& folder) {
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(folder))
    if (is_study_file(entry.path().filename().string())) old.push_back(entry.path());
  if (is_there(folder / "npy"))
    for (const auto& entry : fs::directory_iterator(folder / "npy"))
      if (entry.path().extension() == ".npy") old.push_back(entry.path());
  for (const fs::path& file : old) fs::remove(file);
}

// Ends what finish() has begun, be it in a process that was killed.
void take_places(const fs::path& folder) {
  if (is_there(folder / kWhole)) {
    remove_study(folder);
    fs::rename(folder / kWhole, folder / kMoving);
  }
  const fs::path from = folder / kMoving;
  if (!is_there(from)) return;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(from))
    if (!entry.is_directory()) files.push_back(entry.path());
  for (const fs::path& file : files) {
    const fs::path place = folder / file.lexically_relative(from);
    fs::create_directories(place.parent_path());
    fs::rename(file, place);
  }
  fs::remove_all(from);
}

// A study that cannot get to its place: what stops it stands in the error.
template <class F>
void moving(const fs::path& folder, F f) {
  try {
    f();
  } catch (const fs::filesystem_error& e) {
    heed::fail<autograd::IoError>("study", "cannot move its files into ", folder.string(), ": ",
                                  e.code().message());
  }
}

}  // namespace

StudyFolder::StudyFolder(const std::string& out, const fs::path& usual, bool overwrite)
    : folder_(out.empty() ? usual : fs::path(out)) {
  Place place = take(overwrite);
  const bool this_one = overwrite || !out.empty();
  if (this_one && place == Place::kBusy)
    usage_error("{}: another heed works there now; choose another folder with --out",
                folder_.string());
  if (this_one && place == Place::kHoldsStudy)
    usage_error(
        "--out {} holds a study already; choose another folder, or replace it with --overwrite",
        out);
  for (int n = 2; place != Place::kOurs; ++n) {
    folder_ = usual.string() + fmt::format("-{}", n);
    place = take(overwrite);
  }
  std::error_code ignored;
  fs::remove_all(work(), ignored);
  try {
    make_folder(work());
  } catch (...) {
    clean();
    throw;
  }
}

// Locks the folder, if a study may go there.
StudyFolder::Place StudyFolder::take(bool overwrite) {
  do {  // until it is not one that its owner removes just now
    is_new_ = !is_there(folder_);
    make_folder(folder_);
    try {
      lock_.emplace(folder_);
    } catch (const autograd::IoError&) {
      if (is_there(folder_)) throw;
    }
  } while (!lock_ || !lock_->is_of(folder_));
  Place place = Place::kOurs;
  const bool may_live = !lock_->held() && !overwrite && is_begun(folder_);
  if (lock_->taken() || may_live) {
    place = Place::kBusy;
  } else {
    moving(folder_, [&] { take_places(folder_); });
    if (!overwrite && !is_free(folder_)) place = Place::kHoldsStudy;
  }
  if (place != Place::kOurs) lock_.reset();
  return place;
}

StudyFolder::~StudyFolder() { clean(); }

void StudyFolder::clean() {
  std::error_code ignored;
  fs::remove_all(work(), ignored);
  if (is_new_) fs::remove(folder_, ignored);  // if nothing is in it
}

fs::path StudyFolder::work() const { return folder_ / kWork; }

std::vector<fs::path> StudyFolder::finish(const std::vector<fs::path>& files) {
  std::vector<fs::path> moved;
  for (const fs::path& file : files) moved.push_back(folder_ / file.lexically_relative(work()));
  moving(folder_, [&] {
    fs::rename(work(), folder_ / kWhole);
    take_places(folder_);
  });
  return moved;
}

}  // namespace heed

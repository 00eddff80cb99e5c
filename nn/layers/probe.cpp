#include "nn/layers/probe.h"

#include "autograd/base/error.h"
#include "autograd/ops/ops.h"
#include "nn/io/nearest.h"

namespace heed::nn {

using namespace autograd;

constexpr std::string_view kGrad = "_grad";  // ends the name of a gradient

Probe::Probe() : entries_(std::make_shared<std::map<std::string, Entry>>()) {}

Probe::Entry& Probe::requested(const std::string& site) {
  check<ValueError>(!site.ends_with(kGrad), "probe", "'", site,
                    "' is a gradient, not a site; record the site instead, and read its gradient "
                    "after a backward pass");
  return (*entries_)[site];
}

Probe& Probe::record(const std::string& site) {
  requested(site).recorded = true;
  return *this;
}

Probe& Probe::replace(const std::string& site, Replace f) {
  requested(site).replace = std::move(f);
  return *this;
}

void Probe::fail_unreached(const std::string& site) const {
  const std::vector<std::string> reached = sites();
  if (reached.empty())
    fail<ValueError>("probe", "no forward pass has run with this probe; give it to a forward pass");
  fail<ValueError>("probe", "no forward pass reached '", site, "'; the nearest site is '",
                   nearest(site, reached), "'");
}

void Probe::check_reached() const {
  for (const auto& [site, entry] : *entries_)
    if (!entry.reached) fail_unreached(site);
}

const Probe::Entry& Probe::recorded_entry(const std::string& site) const {
  const auto found = entries_->find(site);
  if (found == entries_->end() || !found->second.reached) fail_unreached(site);
  check<ValueError>(found->second.recorded, "probe", "'", site,
                    "' was not recorded; call record(\"", site, "\") before the forward pass");
  return found->second;
}

Tensor Probe::value(const std::string& name) const {
  if (!name.ends_with(kGrad)) return recorded_entry(name).value;
  const std::string site = name.substr(0, name.size() - kGrad.size());
  const Entry& entry = recorded_entry(site);
  check<ValueError>(entry.gradient.defined(), "probe", "no backward pass reached '", site,
                    "'; call backward()");
  return entry.gradient;
}

std::vector<std::string> Probe::sites() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : *entries_)
    if (entry.reached) names.push_back(name);
  return names;
}

Probe::Entry& Probe::reach(const std::string& site) {
  Entry& entry = (*entries_)[site];
  entry.reached = true;
  return entry;
}

bool Probe::uses(const std::string& site) const {
  const auto found = entries_->find(site);
  return found != entries_->end() && (found->second.recorded || found->second.replace);
}

bool Probe::replaces(const std::string& site) { return bool(reach(site).replace); }

Probe::Observer Probe::value_observer(const std::string& site) {
  if (!reach(site).recorded) return {};
  return [entries = std::weak_ptr(entries_), site](const Tensor& x) {
    const auto live = entries.lock();
    if (!live) return;
    (*live)[site].value = x;
    (*live)[site].gradient = Tensor();  // removes the gradient of an earlier backward pass
  };
}

Probe::Observer Probe::gradient_observer(const std::string& site) {
  if (!reach(site).recorded) return {};
  return [entries = std::weak_ptr(entries_), site](const Tensor& g) {
    if (const auto live = entries.lock()) (*live)[site].gradient = g;
  };
}

Tensor Probe::at(const std::string& site, const Tensor& x) {
  const Entry& entry = reach(site);
  Tensor y = x;
  if (entry.replace) {
    y = entry.replace(x);
    check(y.shape() == x.shape(), "probe", "the replacement at '", site, "' has shape ", y.shape(),
          ", needs ", x.shape());
  }
  if (!entry.recorded) return y;
  value_observer(site)(y.detach());
  if (y.requires_grad())
    y.register_hook([observe = gradient_observer(site)](const Tensor& g) {
      observe(g.detach());
      return Tensor();
    });
  return y;
}

}  // namespace heed::nn

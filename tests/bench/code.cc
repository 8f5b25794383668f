// Code of a module archive: parsing and checking 10,000 and 100,000 lines as PyTorch prints them.
//
// The rows compare the whole text with a tenth of it, which should take a tenth of the time.

#include <memory>
#include <string>

#include "bench/bench.h"
#include "modules/script/check.h"
#include "modules/script/declarations.h"
#include "modules/script/parser.h"

namespace {

using FilePointer = std::shared_ptr<const tenon::script::File>;

// Returns classes of 25 lines, like PyTorch's code of a small layer with a loop and a branch.
std::string code(size_t n_lines) {
  std::string text;
  for (size_t i = 0; text.empty() || i * 25 < n_lines; ++i) {
    const std::string name = "Layer" + std::to_string(i);
    text += "class " + name +
            "(Module):\n"
            "  __parameters__ = [\"weight\", \"bias\", ]\n"
            "  __buffers__ = []\n"
            "  weight : Tensor\n"
            "  bias : Optional[Tensor]\n"
            "  training : bool\n"
            "  _is_full_backward_hook : Optional[bool]\n"
            "  linear : __torch__.torch.nn.modules.linear.Linear\n"
            "  __annotations__[\"0\"] = __torch__.torch.nn.modules.activation.ReLU\n"
            "  factor : Final[float] = 1.5\n"
            "  def forward(self: __torch__.net." +
            name +
            ",\n"
            "    x: Tensor,\n"
            "    lengths: Dict[str, List[int]],\n"
            "    scale: Optional[float]=None) -> Tuple[Tensor, List[int]]:\n"
            "    _0 = getattr(self, \"0\")\n"
            "    x0 = (_0).forward((self.linear).forward(x, ), )\n"
            "    counts = annotate(List[int], [])\n"
            "    for i in range(torch.len(lengths[\"batch\"])):\n"
            "      _1 = torch.append(counts, torch.add(torch.mul(i, 2), -3))\n"
            "    if torch.__isnot__(scale, None):\n"
            "      x1 = torch.mul(x0, unchecked_cast(float, scale))\n"
            "    else:\n"
            "      x1 = torch.conv2d(x0, self.weight, self.bias, [1, 1], [0, 0], [1, 1])\n"
            "    _2 = torch.slice(torch.select(x1, 0, 0), 0, 1, 9223372036854775807)\n"
            "    return (torch.add(_2, x1, alpha=1), counts)\n";
  }
  return text;
}

// The types that the classes above name.
struct Layers {
  const char* qualifier;
  const char* text;
};
constexpr Layers kLayers[] = {
    {"__torch__.torch.nn.modules.linear",
     "class Linear(Module):\n"
     "  __parameters__ = []\n"
     "  __buffers__ = []\n"
     "  def forward(self: __torch__.torch.nn.modules.linear.Linear,\n"
     "    x: Tensor) -> Tensor:\n"
     "    return x\n"},
    {"__torch__.torch.nn.modules.activation",
     "class ReLU(Module):\n"
     "  __parameters__ = []\n"
     "  __buffers__ = []\n"
     "  def forward(self: __torch__.torch.nn.modules.activation.ReLU,\n"
     "    x: Tensor) -> Tensor:\n"
     "    return torch.relu(x)\n"},
};
constexpr const char* kNet = "__torch__.net";

FilePointer parse(const char* qualifier, std::string text) {
  auto parsed = tenon::script::parse_file(qualifier, std::move(text));
  BENCH_CHECK(parsed.is_ok());
  return parsed.value();
}

double parse_ms(const std::string& text) {
  std::string copied = text;
  const int64_t begin = bench::now_ns();
  const FilePointer parsed = parse(kNet, std::move(copied));
  return static_cast<double>(bench::now_ns() - begin) / 1e6;
}

double check_ms(const std::string& text) {
  tenon::script::Declarations declarations;
  for (const Layers& each : kLayers)
    BENCH_CHECK(declarations.add(each.qualifier, parse(each.qualifier, each.text)).is_ok());
  const FilePointer file = parse(kNet, text);
  tenon::script::Uses uses;
  const int64_t begin = bench::now_ns();
  BENCH_CHECK(declarations.add(kNet, file).is_ok());
  const tenon::Status status = tenon::script::check_file(declarations, kNet, *file, {}, &uses);
  const int64_t end = bench::now_ns();
  if (!status.is_ok()) bench::die(__FILE__, __LINE__, "check_file", status.message().c_str());
  return static_cast<double>(end - begin) / 1e6;
}

// Compares the whole text with a tenth of the lines, ten times. Both take the same time if each
// line does.
void measure(const std::string& what, double (*take_ms)(const std::string& text), size_t n_lines,
             size_t rounds) {
  const std::string whole = code(n_lines);
  const std::string tenth = code(n_lines / 10);
  const std::string against = std::to_string(n_lines / 10) + " lines, 10 times";
  bench::Row row{what + " of " + std::to_string(n_lines) + " lines of code",
                 "ms",
                 against,
                 {"ours/theirs", "at_most", 1.5},
                 {},
                 {}};
  for (size_t round = 0; round <= rounds; ++round) {
    const double ours = take_ms(whole);
    double theirs = 0;
    for (int i = 0; i < 10; ++i) theirs += take_ms(tenth);
    if (round == 0) continue;  // warm-up
    row.ours.push_back(ours);
    row.theirs.push_back(theirs);
  }
  bench::print(row);
}

void run(size_t n_lines, size_t rounds) {
  measure("parse", parse_ms, n_lines, rounds);
  measure("check", check_ms, n_lines, rounds);
}

}  // namespace

int main(int argc, char** argv) {
  if (bench::wants_smoke(argc, argv)) {
    run(1'000, 1);
    return 0;
  }
  run(10'000, 30);
  run(100'000, 10);
  return 0;
}

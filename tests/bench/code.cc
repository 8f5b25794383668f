// Code of a module archive, as PyTorch prints it: parsing of 10,000 lines, and whether eight times as many take more for each.

#include <string>

#include "bench/bench.h"
#include "script/parser.h"

namespace {

constexpr size_t kLines = 10'000;
constexpr size_t kManyTimes = 8;

// Classes of 25 lines, what PyTorch prints of a small layer with a loop and a branch.
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

double parse_ms(const std::string& text) {
  std::string copied = text;
  const int64_t begin = bench::now_ns();
  const auto parsed = tenon::script::parse_file("code/__torch__/net.py", std::move(copied));
  const int64_t end = bench::now_ns();
  BENCH_CHECK(parsed.is_ok());
  return static_cast<double>(end - begin) / 1e6;
}

void run(size_t rounds) {
  const std::string few = code(kLines);
  const std::string many = code(kLines * kManyTimes);
  bench::Row parse{"parse of 10,000 lines of code", "ms", "", {}, {}, {}};
  bench::Row growth{"parse of 80,000 lines, for each 10,000", "ms", "10,000 lines", {"ours/theirs", "at_most", 1.5}, {}, {}};
  for (size_t round = 0; round <= rounds; ++round) {
    const double one = parse_ms(few);
    const double each = parse_ms(many) / kManyTimes;
    if (round == 0) continue;  // warm-up
    parse.ours.push_back(one);
    growth.ours.push_back(each);
    growth.theirs.push_back(one);
  }
  bench::print(parse);
  bench::print(growth);
}

}  // namespace

int main(int argc, char** argv) {
  run(bench::wants_smoke(argc, argv) ? 2 : 30);
  return 0;
}

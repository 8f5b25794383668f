"""Hand-written programs about containers, numbers, strings, attributes and calls."""

from handwritten_kit import Object, program

LIST = "List[int]"
FLOATS = "List[float]"
BOOLS = "List[bool]"
BUMP = """
def bump(self, by: int) -> int:
  self.k = self.k + by
  return self.k
"""

# Containers.
program(
    "append_in_loops",
    "List[List[int]]",
    """
    r = annotate(List[List[int]], [])
    for i in range(4):
      row = annotate(List[int], [])
      for v in l:
        if v % 2 == i % 2:
          row.append(v)
      r.append(row)
      r[0].append(i)
    return r
    """,
)
program(
    "lists_in_lists",
    "List[List[int]]",
    """
    a = [l, [n, 3]]
    a[0].append(5)
    a[1][0] += 7
    a[-1] += [1]
    e = a[0]
    e.append(6)
    return a + [l]
    """,
)
program(
    "constant_lists_that_change",
    "List[List[int]]",
    """
    a = [[1], [2, 3]]
    a[0].append(5)
    a[1][0] = 7
    return a
    """,
)
program(
    "two_names_of_one_list",
    LIST,
    """
    m = l
    m.append(1)
    k = l
    k = k + [2]
    m += [3]
    l += [4]
    for i in m:
      m = m + [i]
    return l + k + m
    """,
)
program(
    "list_methods",
    LIST,
    """
    l.append(1)
    l.extend([2, 3])
    l.insert(1, 9)
    a = l.pop()
    c = l.pop(0)
    l.reverse()
    l.sort()
    l.remove(9)
    e = l.copy()
    e.clear()
    return l + [a, c, l.index(1), l.count(1), len(e)] + sorted([3, 1, 2])
    """,
)
program(
    "items_that_are_set",
    LIST,
    """
    l[0] = n
    l[-1] += 9
    l[0] *= 2
    d["q"] = 1
    d["q"] += 2
    l[1 if b else 0] -= d["q"]
    return l + list(d.values())
    """,
)
program(
    "slices",
    LIST,
    """
    r = l[1:] + l[:2] + l[-2:] + l[:-1] + l[::2] + l[5:1]
    t = (1, n, 3, 4)
    u = t[1:3]
    return r + l[n:] + [u[0], u[-1], t[-2]]
    """,
)
program(
    "deleted_items",
    LIST,
    """
    l.append(1)
    l.append(2)
    del l[0]
    del d["a"]
    y = n
    del y
    y = 3
    return l + list(d.values()) + [y]
    """,
)
program(
    "dict_updated_over_its_keys",
    "Dict[str, int]",
    """
    for k in d.keys():
      d[k + "x"] = d[k] + 1
      d[k] = 0
    for k in d:
      d[k] += 5
    return d
    """,
)
program(
    "dict_methods",
    LIST,
    """
    a = d.get("a", -1)
    d.setdefault("n", 4)
    d.update({"u": 5})
    p = d.pop("u")
    e = annotate(Dict[int, str], {})
    e[n] = s
    e[n + 1] = e[n] + "!"
    g = {k: 1 for k in l}
    return [a, p, len(d), len(e), len(e[n + 1]), len(g)] + list(g.keys())
    """,
)
program(
    "dict_in_a_dict",
    "Dict[str, List[int]]",
    """
    r = annotate(Dict[str, List[int]], {})
    for c in s:
      if c in r:
        r[c].append(n)
      else:
        r[c] = [len(r)]
    return r
    """,
)
program(
    "comprehensions",
    LIST,
    """
    q = [[j + n for j in range(i)] for i in l[:2]]
    e = {i: str(i) for i in range(3)}
    r = [i * 2 for i in l] + [len(c) for c in s] + [len(v) for v in q]
    return r + list(e.keys()) + [k for k in range(6, 0, -2)]
    """,
)
program(
    "tuples_unpacked",
    LIST,
    """
    a, c = (n, f)
    (e, (g, h)) = (1, (2, n))
    i, j = l[0], s
    k = m = n
    m += 1
    l[0], d["t"] = 50, 60
    t = (a, j)
    u, v = t
    return [a, e, g, h, i, k, m, u, len(v), d["t"]] + l
    """,
)
program(
    "tuples_in_a_loop",
    "List[Tuple[int, str]]",
    """
    r = annotate(List[Tuple[int, str]], [])
    t = (n, s)
    for i in range(3):
      a, c = t
      t = (a + 1, c + "x")
      r.append(t)
    return r
    """,
)
program(
    "tuple_at_an_index",
    LIST,
    "t = (1, n, 3)\nreturn [t[n % 3], t[len(l) - 4]]",
)
program(
    "equal_and_in",
    BOOLS,
    """
    return [l == [4, 5, 6], l != [7], 4 in l, 9 not in l, "a" in d, "q" not in d,
            "b" in s, s == "abc", n in [1, 2, 3], o is None]
    """,
)
program(
    "range_as_a_list",
    LIST,
    "return list(range(n))",
)
program(
    "zip_as_a_list",
    "List[Tuple[int, str]]",
    "return list(zip(l, s))",
)

# Operators that mean something else in an old archive.
program(
    "old_linspace",
    "Tensor",
    "return torch.linspace(0, f, 3) + torch.linspace(0., 1., steps=3)",
    version=7,
)
program("old_logspace", "Tensor", "return torch.logspace(0, f, 3)", version=8)
program("old_division", "Tensor", "return torch.div(torch.tensor([7, -7]), 2)", version=3)
program("old_gelu", "Tensor", "return torch.gelu(x)", version=9)

# Numbers.
program(
    "integers",
    LIST,
    """
    return [n // 2, n % 2, -n // 2, -n % 2, n // -2, n % -2, -(n * n), n - -n, abs(n),
            n << 2, n >> 1, n & 6, n | 8, n ^ 5, min(n, 2), max(n, 2), int(f), int(b), sum(l)]
    """,
)
program(
    "floats",
    FLOATS,
    """
    return [f // 2.0, f % 2.0, f / 2, n / 2, f // -2.0, f % -2.0, -f // 2, f ** 2,
            2.0 ** n, float(n ** 2), 7 / 2, n // 2.0, f - n, n * f, min(f, 1.0),
            max(float(n), f), abs(f), round(f), float("1.5"), 1e3, .5]
    """,
)
program("infinities", FLOATS, "return [inf, -inf, nan, f - inf, 0.0 * inf]")
program("division_by_zero", FLOATS, "return [n / f, f / n]")
program("power_of_integers", "float", "return n ** 2 + n ** f")
program(
    "comparisons",
    BOOLS,
    """
    r = [1 < n, n < 5 and b, not b or n == 3, n >= f, f != n, not n == 0]
    return r + [bool(n), bool(f), s < "b", s >= "abc"]
    """,
)
program(
    "chained_comparisons",
    LIST,
    """
    l.append(int(1 < n < 5) + 2 * int(0 <= n < f <= 7))
    if 0 < self.seen(l, 1) < self.seen(l, 2):
      l.append(n)
    return l
    """,
    methods="""
    def seen(self, l: List[int], k: int) -> int:
      l.append(k)
      return k + l[0]
    """,
    not_old="it compares only two values",
)
program(
    "bool_operators_with_side_effects",
    LIST,
    """
    r = annotate(List[int], [])
    if self.seen(r, n) and self.seen(r, 1) or self.seen(r, 2):
      r.append(100)
    q = self.seen(r, 0) or (self.seen(r, 5) and not self.seen(r, -6))
    p = 1 if self.seen(r, 7) else 2 if self.seen(r, 8) else 3
    return r + [int(q), p]
    """,
    methods="""
    def seen(self, r: List[int], k: int) -> bool:
      r.append(k)
      return k > 0
    """,
)
program(
    "order_of_arguments",
    LIST,
    """
    r = annotate(List[int], [])
    q = [self.see(r, 1), self.see(r, 2) - self.see(r, 3) * self.see(r, 4)]
    e = {self.see(r, 5): self.see(r, 6)}
    r[self.see(r, 0)] += self.see(r, 8)
    g = self.two(k=self.see(r, 9), r=self.see(r, 10))
    return r + q + [g, len(e)]
    """,
    methods="""
    def see(self, r: List[int], k: int) -> int:
      r.append(k)
      return k
    def two(self, r: int, k: int) -> int:
      return r - k
    """,
)
program(
    "order_of_augmented_assignments",
    LIST,
    """
    self.k += self.bump(2)
    l[self.bump(1) - self.k] -= self.bump(3)
    d["k"] = 1
    d["k"] += self.bump(3)
    x[0, self.bump(-self.k)] += self.bump(2)
    n += self.bump(n)
    l[self.bump(-self.k)], n = self.bump(1), self.bump(3)
    return l + [n, self.k, d["k"]]
    """,
    methods=BUMP,
    attributes={"k": ("int", 5)},
)
program(
    "augmented_assignments",
    "Tuple[int, float, Tensor, str, List[int]]",
    """
    y = x
    n += 1
    n -= 3
    n *= 2
    f += 1
    f /= 2
    f *= 3.0
    x += 1
    x *= 2.0
    x[0] -= 1
    x[:, 1] *= 3
    s += "!"
    l += [n]
    return (n, f, y, s, l)
    """,
)
program("augmented_power", "float", "f **= 2\nreturn f")
program(
    "percent_of_a_call",
    LIST,
    "return [self.bump() % 5, self.k]",
    methods="""
    def bump(self) -> int:
      self.k = self.k + 3
      return self.k
    """,
    attributes={"k": ("int", 5)},
    unlike="PyTorch calls the method twice",
)
program("numbers_of_bools", LIST, "return [int(b) + 1, int(not b), int(f > 1.0) * 3]")
program(
    "bits_of_bools",
    BOOLS,
    "c = n > 1\nreturn [b & c, b | c, b ^ c, b == c, b != c]",
)

# Assignments such as `a[0] += 2`. Some change a Tensor or a list itself.
program(
    "tensors_in_lists_change_themselves",
    "Tuple[Tensor, Tensor, Tensor, List[Tensor]]",
    """
    y = x.clone()
    z = x.clone()
    w = x.clone()
    q = [x, y]
    q[0] += 2
    q[0] -= x * 3
    q[-1] *= f
    q[1] /= 4
    q[1] %= 2
    v = x.int()
    [v][0] >>= 1
    [[z]][0][0] += n
    self.t = [w]
    self.t[0] += 5
    return (y, z, w + v, self.t)
    """,
    attributes={"t": ("List[Tensor]", [])},
)
# An item of a dict is replaced. So is an item of a list by `|=`, `&=`, `^=` and `**=`.
program(
    "tensors_that_are_replaced_beside_one_that_changes",
    "Tuple[Tensor, List[Tensor], Dict[str, Tensor]]",
    """
    y = x.int()
    q = [y, y, y, y, x]
    q[0] |= 2
    q[1] &= 6
    q[2] ^= 1
    q[3] **= 2
    e = {"a": x}
    e["a"] += 2
    e["a"] *= 3
    q[4] -= 1
    return (y, q, e)
    """,
)
program(
    "the_type_of_a_changed_tensor_stays",
    "Tensor",
    """
    y = x.int()
    q = [y]
    if n == 3:
      q[0] += 2.5
    q[0] += 2
    return y
    """,
)
program("a_list_times_a_number", LIST, "m = l\nm *= 2\nk = m\nm += [n]\nk *= n\nreturn l")
program(
    "lists_in_lists_change_themselves",
    "Tuple[List[int], List[int], List[List[int]], Dict[str, List[int]]]",
    """
    k = [n]
    q = [l, k]
    q[0] += [5]
    q[1] *= 2
    [q][0][-1] += k
    e = {"a": k}
    e["a"] += [7]
    e["a"] *= 2
    return (l, k, q, e)
    """,
)
program(
    "lists_of_a_module_change_themselves",
    "Tuple[List[int], List[int]]",
    """
    m = self.u
    self.u *= 2
    self.u += [n]
    k = [1, 2]
    self.v = [k]
    self.v[0] *= 2
    return (m, k)
    """,
    attributes={"u": (LIST, [3, 4]), "v": ("List[List[int]]", [[1, 2], [3, 4]])},
)
VIEWS = {
    "plus": "y[0] += 2.5",
    "divided": "y[0] /= 2",
    "times": "y[:, 0] *= f",
    "remainder": "y[0] %= 2.5",
    "minus": "y[0] -= x[0]",
    "whole": "y[...] += f",
    "masked": "y[y > 1] += 2.5",
    "masked_minus": "y[y > 1] -= x[y > 1]",
    "masked_divided": "y[y > 1] /= 2",
}
for view, line in VIEWS.items():
    program(f"view_of_ints_{view}", "Tensor", f"y = x.int()\nif n > 2:\n  {line}\nreturn y")
program("view_of_bools_plus", "Tensor", "y = x > 1\nif n > 2:\n  y[0] += 1\nreturn y")
# PyTorch computes `y[0] |= 1` and drops the result. So it changes nothing, and accepts every type.
program(
    "views_that_change_and_views_that_stay",
    "Tuple[Tensor, Tensor]",
    """
    y = x.int()
    y[0] += 2
    y[0, None, 1:] *= n
    y[..., 0] -= 4
    y[0] %= 3
    y[0] >>= 1
    x[0] /= f
    x[x > 1] *= 2.5
    x[x > 2] %= 2
    x[[0]] -= 1
    y[0] |= 1
    y[0] &= 2
    y[:, 0] ^= 2
    y[0] **= 2
    x[0] |= 1
    y[y > 1] |= 2
    y[y > 2] **= 2
    return (x, y)
    """,
)

# Conversions without a call: where a function returns, and where a variable is set again.
program("a_tensor_returned_as_int", "int", "return x.sum().int() if b else x.int().sum()")
program("a_tensor_returned_as_float", "float", "if b:\n  return x.sum()\nreturn f")
program(
    "a_tensor_returned_as_optional_int", "Optional[int]", "if b:\n  return x.sum().int()\nreturn o"
)
program("a_tensor_returned_as_complex", "complex", "return x.sum()")
program("a_tensor_returned_as_number", "number", "return x.sum()")
program("a_tensor_in_a_returned_tuple", "Tuple[int, float]", "return (x.sum().int(), x.sum())")
program("a_matrix_returned_as_int", "int", "if n > 2:\n  return x\nreturn n")
program("a_number_returned_as_float", "float", "return x.sum().item()")
program("a_number_returned_as_int", "int", "return x.sum().item()")
program("a_text_returned_as_device", "Device", 'return "cpu:" + str(len(l) - 3)')
NO_BOOL = "PyTorch 1.13 makes no number of a bool"
program("a_bool_returned_as_int", "int", "return b", not_old=NO_BOOL)
program("a_bool_returned_as_float", "float", "return b", not_old=NO_BOOL)
program("or_returned_as_int", "int", "return n or 3", not_old=NO_BOOL)
program("and_returned_as_int", "int", "return n and 3", not_old=NO_BOOL)
program("a_bool_in_a_returned_tuple", "Tuple[int, float]", "return (b, b)", not_old=NO_BOOL)
program(
    "a_tensor_returned_by_a_called_method",
    "float",
    "return self.sum(x) + 1",
    methods="def sum(self, y: Tensor) -> float:\n  return y.sum()",
)
program(
    "variables_that_take_tensors",
    "Tuple[int, float, int]",
    """
    m = n
    k : int = 3
    if b:
      m = x.sum().int()
      f = x.sum().item()
    while k < 9:
      k = x.int().max() + k
    return (m, f, k)
    """,
)
program(
    "a_variable_that_takes_a_bool", "int", "m = n\nif n > 0:\n  m = b\nreturn m", not_old=NO_BOOL
)

# Tuples, dicts and attributes in forms that a person writes and PyTorch never prints.
program(
    "sums_of_tuples",
    "Tuple[Tuple[int, int, str], Tuple[int, Tensor, int], Tuple[int]]",
    """
    t = __torch__.Pair(n, x)
    return ((1, n) + (s,), t + (4,), (n,) + ())
    """,
    before="class Pair(NamedTuple):\n  number : int\n  tensor : Tensor",
)
program(
    "slices_of_tuples_with_a_step",
    "Tuple[Tuple[int, float], Tuple[float, str, int], Tuple[float], Tuple[str, int], Tuple[float,"
    " int]]",
    """
    t = (n, s, f)
    p = __torch__.Pair(n, f)
    return (t[::2], t[::-1], t[-1:0:-2], t[1:-9:-1], p[::-1])
    """,
    before="class Pair(NamedTuple):\n  number : int\n  other : float",
)
program(
    "slices_of_tuples_at_the_limits",
    "Tuple[Tuple[int], Tuple[int], Tuple[int, int, int], int]",
    """
    t = (n, 5, 6)
    last = 9223372036854775807
    a = t[-9223372036854775807:1:9223372036854775807]
    c = t[2:-9223372036854775807:-9223372036854775807]
    return (a, c, t[9:-9:-1], len(t[5:1:2]) + len(t[0:2:-1]))
    """,
)
program(
    "getattr_with_a_default",
    LIST,
    """
    a = getattr(self, "none_such", n)
    c = getattr(self, "k", n)
    q = getattr(self, "other", None)
    if q is None:
      a += 100
    return [a, c]
    """,
    attributes={"k": ("int", 5)},
)
program(
    "dicts_of_keywords",
    "Tuple[Dict[str, int], Dict[str, int], Dict[str, List[int]], Dict[str, Optional[int]],"
    " Dict[int, int]]",
    """
    e : Dict[str, Optional[int]] = dict(a=o, b=n)
    g : Dict[int, int] = dict()
    g[n] = 3
    h = dict(d, a=n)
    i = dict(a=l, b=[n])
    i["a"] += [5]
    return (dict(a=1, b=n), h, i, e, g)
    """,
)
program("dict_of_an_empty_dict_and_a_keyword", "Dict[str, int]", "return dict({}, q=n)")

# Strings.
program(
    "formats",
    "List[str]",
    """
    return ["{}-{}".format(s, n), "{} {}".format(l, b), "n = {}".format(n + 1),
            str(n) + str(b) + str(l), "{}{}{}".format(1.5, o, "x")]
    """,
)
program("percent_of_a_tuple", "str", 'return "%d-%s, %s" % (n, s, f)')
program("percent_of_a_number", "str", 'return "%d of" % n + "%s" % s')
program(
    "methods_of_strings",
    "List[str]",
    """
    r = s.split(",") + [s.upper(), s.replace("a", "b"), s.strip(), "-".join(s.split("b"))]
    r.append(s.join(["a", "b"]))
    r.append("{}".format(s.find("b")) + str(s.startswith("a")) + str(s.count("y")))
    r.append(chr(97) + str(ord("a")) + hex(255))
    return r
    """,
)
program(
    "slices_of_strings",
    "List[str]",
    """
    r = [s[1:], s[:2], s[-2:], s[::2], s[:-1], s[n:]]
    r.append(s[0] + s[-1])
    return r
    """,
)
program(
    "string_built_in_loops",
    "str",
    """
    r = "" if b else ">"
    for i, c in enumerate(s):
      for k in range(i):
        r += c if k % 2 == 0 else c.upper()
      if len(r) > 5:
        break
      r = r + ";"
    return r
    """,
)

# Tensors that change, attributes, and calls.
program(
    "argument_that_changes",
    "Tensor",
    """
    y = x
    for i in range(2):
      x[0, i] = n
      if b:
        x.add_(1)
        y = x
      else:
        y = x.clone()
      y.mul_(2)
    x[x > 5] = 0
    return y
    """,
)
program(
    "tensor_indices",
    "Tensor",
    """
    t = x[:, 1:].sum() + x[..., 0].sum() + x[None].sum() + x[0].sum() + x[:, -1].sum()
    y = x.clone()
    y[:, 1] = 2.0
    y[..., 2] = x[..., 0]
    y[y > 2] += 1
    return y + t + x[0, n % 3]
    """,
)
program(
    "attributes_in_loops",
    "Tuple[int, float, str]",
    """
    for i in l:
      if i == 5:
        continue
      self.k += i
      self.t = self.t * 2 + f
      if self.k > 20:
        self.name = self.name + s
        return (self.k, self.t, self.name)
    self.k *= 2
    return (self.k, self.t, self.name)
    """,
    attributes={"k": ("int", 5), "t": ("float", 1.5), "name": ("str", "m")},
)
program(
    "attributes_changed_by_methods",
    LIST,
    """
    before = self.k
    if self.bump(n) > 6 and self.bump(1) > 0:
      l.append(self.k)
    self.k += self.bump(2)
    return l + [before, self.k]
    """,
    methods=BUMP,
    attributes={"k": ("int", 5)},
)
program(
    "free_functions",
    "Tensor",
    """
    y = __torch__.scaled(x, 2.0, neg=b)
    __torch__.extend(l)
    return y + __torch__.scaled(x) + sum(l)
    """,
    before="""
    def extend(l: List[int]) -> NoneType:
      for i in range(3):
        if i in l:
          return None
        l.append(i)
    def scaled(x: Tensor, s: float=1., neg: bool=False) -> Tensor:
      y = torch.mul(x, s)
      if neg:
        return torch.neg(y)
      return y
    """,
)
program(
    "methods_with_defaults",
    "int",
    "return self.h(n) + self.h(n, 5) + self.h(n, o=7, q=s) + self.h(q=s, a=1)",
    methods="""
    def h(self, a: int, o: Optional[int]=None, q: str="z") -> int:
      if o is None:
        return a + len(q)
      return a * o + len(q)
    """,
)
program(
    "named_tuples",
    "str",
    """
    p = __torch__.P(n, s)
    q = __torch__.P(a=1, b="q")
    for i in range(2):
      p = __torch__.P(p.a + i, p.b + q.b)
    u, v = p
    return p.b + v + str(u + q[0])
    """,
    before="class P(NamedTuple):\n  a : int\n  b : str\n",
)
program(
    "interfaces",
    LIST,
    """
    step = self.one
    for i in range(2):
      n = step.run(n)
      if n > 6:
        return [n, self.one.run(0)]
    return [n, self.two.run(n)]
    """,
    before="""
    class Step(ModuleInterface):
      def run(self, n: int) -> int:
        pass
    class Add(Module):
      __parameters__ = []
      __buffers__ = []
      k : int
      training : bool
      def run(self, n: int) -> int:
        self.k = self.k + 1
        return n + self.k
    class Twice(Module):
      __parameters__ = []
      __buffers__ = []
      k : int
      training : bool
      def run(self, n: int) -> int:
        for i in range(2):
          if n > 4:
            return n
          n = n * 2
        return n
    """,
    attributes={
        "one": ("__torch__.Step", Object("Add", {"k": 2, "training": False})),
        "two": ("__torch__.Step", Object("Twice", {"k": 1, "training": False})),
    },
)
program(
    "any_and_union",
    LIST,
    """
    y : Any = n
    if b:
      y = s
    z : Union[int, str] = n
    if n > 2:
      z = s
    if isinstance(z, str):
      k = len(z)
    else:
      k = z
    if isinstance(y, int):
      return [y, k]
    return [0, k]
    """,
)
program("printed", LIST, "for i in range(3):\n  print(s, i, n)\nreturn l")

# Values that PyTorch computes by a loop, and values that it looks up at run time.
program(
    "lists_of_ranges",
    "List[int]",
    """
    return list(range(n)) + list(range(9, n, -2)) + [i for i in list(range(1, 4))]
    """,
)
program(
    "lists_of_pairs",
    "Tuple[List[Tuple[int, int]], List[Tuple[int, str]], List[Tuple[int, int]]]",
    """
    return (list(zip(l, range(n))), list(enumerate(["a", s], len(s))), list(enumerate(l)))
    """,
)
program(
    "lists_of_what_a_loop_goes_over",
    "Tuple[List[str], List[str], List[Tensor], List[int]]",
    """
    keys = list(d)
    keys.sort()
    return (keys, list(s), list(x), list(l))
    """,
)
program(
    "dicts_of_pairs",
    "Tuple[Dict[int, int], Dict[str, int], Dict[str, int]]",
    """
    return (dict(zip(range(n), l)), dict([(s, n), ("b", 3)]), dict(d))
    """,
)
program(
    "ranges_with_a_name",
    "Tuple[int, int, List[int]]",
    """
    numbers = range(1, n + 2)
    total = 0
    n = 100
    for i in numbers:
      total += i
    pairs = zip(l, numbers)
    product = 0
    for left, right in pairs:
      product += left * right
    return (total, product, [i * 2 for i in numbers])
    """,
)
program(
    "a_range_of_one_branch", "int", "if b:\n  r = range(3)\n  for i in r:\n    n += i\nreturn n"
)
program(
    "tuple_by_index",
    "Tuple[int, str]",
    """
    t = (3, n, 5)
    names = ("a", s)
    total = 0
    for i in range(3):
      total += t[i] * t[-i]
    return (total, names[n % 2])
    """,
)
program("tuple_index_out_of_range", "int", "t = (1, 2, 3)\nreturn t[n]")
# In old archives the number of steps may be None, which is 100.
STEPS = """
steps : Optional[int] = None
if n > 2:
  steps = n
a = torch.linspace(0, 1)
b = torch.linspace(0, n, steps, dtype=7)
c = torch.logspace(0, 1, None)
d = torch.logspace(0., 1., steps, 3.)
return (a, b, c, d, torch.linspace(0, 1, None, out=torch.neg(x)), torch.linspace(0, 1, 5))
"""
TENSORS = "Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]"
program("steps_in_an_archive_of_version_3", TENSORS, STEPS, version=3)
program("steps_in_an_archive_of_version_7", TENSORS, STEPS, version=7)
program(
    "results_by_their_names",
    "Tuple[Tensor, Tensor, Tensor, Tensor]",
    "return (torch.max(x, 0).values, torch.sort(x).indices, torch.complex(x, x).real,"
    " torch.complex(x, x + 1).imag)",
)
program(
    "tensors_shifted_in_place",
    "List[Tensor]",
    """
    y = torch.add(x, 8).to(3)
    z = y
    y <<= 1
    y >>= torch.ones([1], dtype=3)
    w = (y << 2) + (y >> 1)
    y ^= z
    y |= w
    y &= 7
    return [y, z, w]
    """,
)
program(
    "dict_of_two_dicts",
    "Dict[str, int]",
    "return dict(d, {'q': n})",
    refused="dict() takes one argument, and gets 2",
)
program(
    "dicts_of_pairs_that_change",
    "Dict[str, int]",
    """
    e = dict([("k", n), ("m", 2)])
    e["new"] = n
    return dict(e)
    """,
)

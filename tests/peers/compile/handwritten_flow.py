"""Hand-written programs about control flow, the refinement of Optionals, and errors."""

from handwritten_kit import program

LIST = "List[int]"

# Loops, and ways out of them.
program(
    "return_in_one_loop",
    LIST,
    """
    for i in range(5):
      if i == n:
        return [i, 100]
      if i == 3:
        return [i, 200]
    return [n, 300]
    """,
)
program(
    "return_in_two_loops",
    LIST,
    """
    for i in range(5):
      for j in l:
        if j == 5:
          return [i, j]
    return [n, 0]
    """,
)
program(
    "return_in_three_loops",
    LIST,
    """
    for i in range(5):
      for j in l:
        k = 0
        while k < 4:
          k += 1
          if k == j:
            return [i, j, k]
          elif k > n:
            break
          else:
            continue
      if i == n:
        return [i]
    return [n, 0]
    """,
)
program(
    "return_in_a_while_in_a_for",
    LIST,
    """
    for i in range(4):
      k = 0
      while k < 9:
        k += 1
        if k == 4:
          return [i, k]
        elif k > n:
          break
      n += 1
    return [n, 0]
    """,
)
program(
    "return_of_other_types_in_loops",
    "Tuple[int, str]",
    """
    for i, c in enumerate(s):
      for k in d:
        if c == k:
          return (i, k)
        for v in l:
          if v == d[k]:
            return (v, c)
    return (-1, s)
    """,
)
program(
    "early_returns_of_each_depth",
    LIST,
    """
    if b:
      if n > 2:
        if f > 2.0:
          return [1]
        n += 10
      elif n > 0:
        return [2]
      n += 100
    else:
      if n < 0:
        return [3, n]
    l.append(n)
    if n > 50:
      return l
    return [4, n]
    """,
)
program(
    "return_of_a_method_in_a_loop",
    LIST,
    """
    r = annotate(List[int], [])
    for i in range(n + 2):
      r.append(self.first(l, i))
    return r
    """,
    methods="""
    def first(self, l: List[int], above: int) -> int:
      for i in range(3):
        for v in l:
          if v > above + i:
            return v
      return -1
    """,
)
program(
    "break_and_continue",
    LIST,
    """
    r = annotate(List[int], [])
    for i in range(10):
      if i == n:
        continue
      if i % 4 == 3:
        for j in range(i):
          if j == 1:
            continue
          if j > n:
            break
          r.append(j)
        continue
      if i > 7:
        break
      r.append(i * 10)
    return r
    """,
)
program(
    "break_of_the_inner_loop_alone",
    LIST,
    """
    k = 0
    for i in range(4):
      while True:
        k += 1
        if k % 3 == 0:
          break
        elif k > 20:
          return [k, i]
      k += 100
      if k > 300:
        break
    return [k]
    """,
)
program(
    "break_in_else",
    LIST,
    """
    k = 0
    for i in range(10):
      if i > 2:
        k += 1
        break
      else:
        k += 10
        if b:
          continue
        k += 100
    return [k]
    """,
)
program(
    "statements_after_break",
    LIST,
    """
    for i in l:
      if i > 4:
        n += i
        break
        n += 1000
      n += 1
    return [n]
    """,
)
program(
    "while_true",
    LIST,
    """
    i = 0
    while True:
      i += 1
      if i > 7 or i == n:
        break
    while i > 0:
      i -= 2
      if i == 3:
        return [i, 33]
    return [i]
    """,
)
program(
    "while_with_side_effects",
    LIST,
    """
    while self.step(l) and len(l) < 9:
      n += 1
    return l + [n]
    """,
    methods="""
    def step(self, l: List[int]) -> bool:
      l.append(len(l))
      return len(l) % 7 != 0
    """,
)
program(
    "for_target_that_exists",
    LIST,
    """
    k = -1
    for k in range(3):
      n += k
    m = -1
    for m, v in enumerate(l):
      n += v
    return [k, m, n]
    """,
)
program(
    "for_target_that_is_an_argument",
    LIST,
    """
    for n in range(3):
      n = n * 2
    for s in d:
      pass
    return [n, len(s)]
    """,
)
program(
    "for_target_that_is_assigned",
    LIST,
    """
    k = -1
    for k in range(4):
      if k == n:
        break
      k = k * 10
    return [k]
    """,
)
program(
    "for_target_in_nested_loops",
    LIST,
    """
    i = 7
    r = annotate(List[int], [])
    for i in l:
      for i in range(2):
        r.append(i)
      r.append(i + 100)
    r.append(i)
    return r
    """,
)
program(
    "for_target_of_a_comprehension",
    LIST,
    """
    i = 7
    r = [i * 2 for i in l]
    r.append(i)
    return r
    """,
)
program(
    "ranges",
    LIST,
    """
    r = annotate(List[int], [])
    for i in range(n, -n, -2):
      r.append(i)
    for i in range(-n, n, 3):
      r.append(i)
    for i in range(5, 0, -1):
      r.append(i)
    for i in range(n):
      n -= 1
      r.append(n)
    return r
    """,
)
program(
    "loops_over_strings_and_dicts",
    "str",
    """
    r = ""
    for c in s:
      r = c + r
    for k in d:
      r += k
    for k, v in d.items():
      r += k + str(v)
    for v in d.values():
      r += str(v)
    for k in d.keys():
      r += k
    return r
    """,
)
program(
    "loops_over_zip_and_enumerate",
    LIST,
    """
    r = annotate(List[int], [])
    for a, c in zip(l, [1, 2, 3]):
      r.append(a * c)
    for i, (a, c) in enumerate(zip(l, s)):
      r.append(i * a + len(c))
    for i, a in enumerate(l, 5):
      r.append(i + a)
    for a, (c, e) in [(1, (2, 3)), (4, (5, 6))]:
      r.append(a * c + e)
    return r
    """,
)
program(
    "loop_over_a_list_that_grows",
    LIST,
    """
    for v in l:
      if len(l) < 8:
        l.append(v + 1)
    for i in range(len(l)):
      l.append(i)
    return l
    """,
)
program(
    "loop_over_a_tensor",
    "Tuple[float, Tensor]",
    """
    t = 0.0
    for row in x:
      t += float(row.sum())
      if t > 1.0:
        break
    y = x
    while bool(y.sum() < 50):
      y = y + 4
    return (t, y)
    """,
)
program(
    "names_swapped_in_a_loop",
    LIST,
    """
    a = 0
    c = 1
    for i in range(n + 3):
      a, c = c, a + c
      n, a = a, n
    return [a, c, n]
    """,
)
program(
    "one_name_in_both_branches",
    LIST,
    """
    if b:
      m = n
      k = n
    else:
      m = n
      k = 1
    l.append(m)
    l[-1] += n if b else n
    return l + [m * 2, k]
    """,
)
program(
    "name_set_where_the_flow_goes_on",
    LIST,
    """
    for i in range(4):
      r = 0
      if i == n:
        r = 1
      elif i > 2:
        break
      else:
        continue
      l.append(r)
    if n > 1:
      q = n
    else:
      return l
    return [q]
    """,
)
program(
    "values_of_outer_loops_in_inner_loops",
    "Tuple[int, str, bool]",
    """
    for c in s:
      for n in l:
        pass
      for i in l:
        b = n > 3
    return (n, s, b)
    """,
)
program(
    "conditions_that_are_no_bools",
    LIST,
    """
    if s:
      l.append(1)
    if not l or s and n:
      l.append(2)
    while f:
      f = f - f
      n += 10
    if x.sum():
      l.append(n)
    return l
    """,
)
program(
    "branches_that_are_known",
    LIST,
    """
    if False:
      n = 1
    elif isinstance(n, int):
      n += 2
    else:
      n = "never"
    if hasattr(self, "missing"):
      n = self.missing
    while False:
      n += 1
    return [n]
    """,
)

# Optionals.
COUNTED = "Optional[int]"
program("none_then_a_value", COUNTED, "if b:\n  return None\nreturn n")
program(
    "if_none_then_set",
    LIST,
    """
    if o is None:
      o = 0
    for i in l:
      o = o + i
    return [o]
    """,
)
program(
    "if_not_none_in_loops",
    LIST,
    """
    if o is not None:
      for i in l:
        o = o + i
      while o < 10:
        o += 3
      return [o]
    return [0]
    """,
)
program(
    "assert_not_none",
    LIST,
    """
    assert o is not None
    for i in l:
      o = o * 2 + i
    return [o]
    """,
)
program(
    "and_or_refine",
    LIST,
    """
    r = annotate(List[int], [])
    if o is not None and o > 2:
      r.append(o)
    if o is None or o == 0:
      r.append(-1)
    else:
      r.append(o)
    if b and o is not None and n > 0 and o < 5:
      r.append(o + 100)
    if not o is None:
      r.append(o + 200)
    r.append(o if o is not None else 300)
    return r
    """,
)
program(
    "while_not_none",
    LIST,
    """
    while o is not None and o > 0:
      assert o is not None
      k = o - 2
      o = None if k < 2 else k
    y : Optional[int] = n
    while y is not None:
      if y is not None:
        l.append(y)
      y = d.get(str(y))
      if len(l) > 6:
        break
    return l + [-1 if o is None else o]
    """,
)
program(
    "continue_and_break_refine",
    LIST,
    """
    t = 0
    for i in l:
      y = d.get(str(i))
      if y is None:
        continue
      else:
        t += y
      t *= 2
    for k in d:
      y = d.get(k)
      if y is not None:
        t += y
      else:
        break
      if y is None or y > 5:
        t += 100
        break
    return [t]
    """,
)
program(
    "none_before_a_break",
    LIST,
    """
    y : Optional[int] = n
    for i in range(3):
      if b:
        y = None
      if y is None:
        break
      n += 1
    if y is None:
      n = 77
    return [n]
    """,
)
program(
    "none_before_a_continue",
    LIST,
    """
    y : Optional[int] = n
    k = 0
    while k < 3:
      k += 1
      if k == 2:
        y = None
      if y is None:
        continue
      n += 1
    return [n, -1 if y is None else y]
    """,
)
program(
    "none_in_nested_loops",
    LIST,
    """
    y : Optional[int] = n
    for i in range(2):
      for j in range(3):
        y = None
        if j == n:
          break
      if y is not None and y > 4:
        pass
      else:
        break
    if y is None:
      n = 77
    return [n]
    """,
)
program(
    "set_then_break",
    LIST,
    """
    y : Optional[int] = 3
    for i in l:
      if y is not None:
        if y > 4:
          break
        y = None
      else:
        y = i
    if y is None:
      return [55]
    return [y]
    """,
)
program(
    "set_before_a_loop_and_none_in_it",
    LIST,
    """
    y : Optional[int] = n
    for i in l:
      z : Optional[int] = None
      if y is None:
        z = i
      elif i != 5:
        z = y + i
      y = z
    return [-1 if y is None else y]
    """,
)
program(
    "known_none_then_set_in_a_loop",
    LIST,
    """
    if o is None:
      for c in s:
        o = n
    else:
      return [n]
    return [-1 if o is None else o]
    """,
)
program(
    "left_where_not_none_then_set_in_a_loop",
    LIST,
    """
    if o is not None:
      return [o]
    k = 0
    while k < 4:
      k += 1
      o = d.get(str(k + n))
    return [0 if o is None else o]
    """,
)
program(
    "set_where_not_none_then_none_in_a_loop",
    LIST,
    """
    y : Optional[int] = self.k
    if y is not None:
      y = n
    for i in l:
      y = None
    return [0 if y is None else y]
    """,
    attributes={"k": ("int", 5)},
)
program(
    "known_int_then_none_in_a_loop",
    LIST,
    """
    y : Optional[int] = n
    if b:
      y = 5
    for i in l:
      if i == 5:
        y = None
    return [0 if y is None else y]
    """,
)
program(
    "refined_in_nested_loops",
    LIST,
    """
    y : Optional[int] = n
    if y is not None:
      for c in s:
        k = 0
        while k < 4 and 2 < y - k:
          k += 1
        y, n = k, y
    return [n]
    """,
)
program(
    "none_of_one_branch",
    LIST,
    """
    y : Optional[int] = None
    if b:
      y = n
    if y is None:
      return [0]
    else:
      l.append(y)
    if y is None:
      l.append(55)
    return l
    """,
)
program(
    "refined_of_two",
    LIST,
    """
    y = d.get(s)
    z = d.get("a")
    if y is None and z is None:
      return [0]
    elif y is None:
      return [1]
    elif z is None:
      return [y]
    return [y + z]
    """,
)
program(
    "raise_refines",
    LIST,
    """
    y = d.get("a")
    if y is None:
      raise AssertionError
    if o is None:
      ops.prim.RaiseException("there is no o")
    else:
      y += o
    return [y]
    """,
)
program(
    "optional_tensors_and_dicts",
    "Tensor",
    """
    y : Optional[Tensor] = x
    if n < 0:
      y = None
    e : Optional[Dict[str, int]] = d
    if b:
      e = None
    if e is not None:
      if "z" in e:
        x = x + e["z"]
    if y is not None:
      for i in l:
        y = y + i
      return y.relu()
    return x
    """,
)
program(
    "optional_of_an_expression",
    LIST,
    """
    y = None if b else n
    if y is None:
      return [0]
    z : Optional[int] = None
    for i in range(3):
      if i == 1:
        z = y
      if z is not None:
        l.append(z)
    return l
    """,
)
program(
    "optional_argument_of_a_method",
    LIST,
    """
    return self.add(None) + self.add(n) + self.add(o, 5) + self.add(k=2, y=o)
    """,
    methods="""
    def add(self, y: Optional[int], k: int=3) -> List[int]:
      if y is None:
        y = 0
      for i in range(k):
        y = y + i
      return [y]
    """,
)

# Errors.
program("assert_with_a_message", LIST, 'assert n > 0, "n is {}".format(n)\nreturn [n]')
program("assert_without_a_message", LIST, "assert n > 0\nreturn [n]")
program("assert_with_a_number", LIST, "assert n > 0, n\nreturn [n]")
program("assert_with_a_class_in_its_message", LIST, 'assert n > 0, "ValueError: n"\nreturn [n]')
program(
    "raise_with_words_and_without",
    LIST,
    """
    if n > 2:
      raise AssertionError(s, n, "!", l)
    elif n > 0:
      raise AssertionError
    elif n < 0:
      ops.prim.RaiseException("KeyError: why")
    return [n]
    """,
)
program(
    "raise_in_loops",
    LIST,
    """
    for i in l:
      for j in range(i):
        if j == 5:
          raise AssertionError
        n += j
    return [n]
    """,
)
program(
    "raise_in_one_branch",
    LIST,
    """
    if n > 1:
      r = 1
    else:
      ops.prim.RaiseException(s + "!")
      r = 2
    if f < 0.0:
      raise AssertionError
    return [r]
    """,
)
program(
    "errors_of_operators",
    LIST,
    """
    l[0] = 100 // n
    l.append(d["a"])
    if n == 6:
      l.append(int(s))
    return [l[2], n]
    """,
)
program(
    "continue_where_none_before_a_condition_that_asks_again",
    LIST,
    """
    i = 0
    while i < 4 and o is None:
      i += 1
      if b:
        if n > 100:
          return [1]
        if o is None:
          continue
      else:
        return [i]
      continue
    return [i]
    """,
)
program(
    "error_after_a_change_of_self",
    LIST,
    """
    self.k += 1
    assert n > 0
    return [self.k]
    """,
    attributes={"k": ("int", 5)},
)

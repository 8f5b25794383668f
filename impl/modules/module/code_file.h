// CodeFile is one code file: its text, and the classes and functions in it, which it finds when the
// file is first parsed. CodeSet owns the files.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/once.h"
#include "base/status.h"
#include "modules/module/class_body.h"
#include "modules/module/name_map.h"
#include "modules/script/parser.h"
#include "modules/value/check.h"

namespace tenon::module {

// One class or function.
class Definition {
 public:
  const std::string& name() const noexcept { return name_; }
  bool is_class() const noexcept { return is_class_; }
  int version() const noexcept { return version_; }
  // Whether the definition was made or changed in this process, and not only read.
  bool is_new() const noexcept { return is_new_; }

 private:
  friend class CodeSet;
  friend class CodeFile;
  struct Text {
    Status status;
    std::shared_ptr<const script::File> file;
    const script::Item* item = nullptr;
  };
  struct Body {
    Status status;
    ClassBody body;
  };
  struct Decl {
    bool is_good = false;
    value::ClassDecl decl;
  };

  std::string name_;
  bool is_class_ = true;
  bool is_new_ = false;
  int version_ = 0;
  uint32_t objects_ = 0;  // see CodeSet::objects()
  // The parsed text and its parts, or a text that was printed from a changed body.
  Once<Text> text_;
  Once<Body> body_;
  Once<Decl> decl_;
};

// The thread rules are those of CodeSet. The pointers that the functions give are valid as long as
// the file, and the list of pieces() until the next add().
class CodeFile {
 public:
  CodeFile(std::string qualifier, std::string text, int version)
      : qualifier_(std::move(qualifier)), text_(std::move(text)), version_(version) {}

  const std::string& qualifier() const noexcept { return qualifier_; }

  // A class, a function, or another item of the file (an `import` or a version line). The latter
  // have no definition.
  struct Piece {
    Definition* definition = nullptr;
    std::shared_ptr<const script::File> file;
    const script::Item* item = nullptr;
  };
  // CORRUPT, with line and caret, if the file cannot be parsed.
  Result<const std::vector<Piece>*> pieces() const;
  // Gives null if there is no such name. If several have the name, gives the last, as PyTorch does.
  Result<Definition*> find(std::string_view base_name) const;
  // The parsed file without later changes. Null: the text cannot be parsed.
  const std::shared_ptr<const script::File>& file() const { return parsed().file; }
  // The text as it was read. Null if something in the file was changed or added.
  const std::string* unchanged_text() const noexcept { return is_changed_ ? nullptr : &text_; }

  // These change the file, which must have been parsed. The name of `definition` must be new.
  void add(std::unique_ptr<Definition> definition, Piece piece);
  void mark_changed() noexcept { is_changed_ = true; }

 private:
  struct Parsed {
    Status status;
    std::shared_ptr<const script::File> file;
    std::vector<std::unique_ptr<Definition>> definitions;
    std::vector<Piece> pieces;
    ByName<Definition*> by_name;
  };
  Parsed& parsed() const;
  std::unique_ptr<Parsed> parse() const;

  std::string qualifier_;
  std::string text_;
  int version_;
  bool is_changed_ = false;
  Once<Parsed> parsed_;
};

// "code/__torch__/a.py" of "__torch__.a".
std::string code_record_of(std::string_view qualifier);

}  // namespace tenon::module

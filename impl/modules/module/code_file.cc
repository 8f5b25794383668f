#include "modules/module/code_file.h"

#include <algorithm>

namespace tenon::module {

std::string code_record_of(std::string_view qualifier) {
  std::string path(qualifier);
  std::replace(path.begin(), path.end(), '.', '/');
  return "code/" + path + ".py";
}

std::unique_ptr<CodeFile::Parsed> CodeFile::parse() const {
  auto parsed = std::make_unique<Parsed>();
  auto file = script::parse_file(code_record_of(qualifier_), text_);
  if (!file.is_ok()) {
    parsed->status = file.status();
    return parsed;
  }
  parsed->file = file.value();
  for (const script::Item& item : file.value()->items()) {
    Piece piece{nullptr, file.value(), &item};
    if (item.kind == script::ItemKind::kClass || item.kind == script::ItemKind::kFunction) {
      auto definition = std::make_unique<Definition>();
      definition->name_ = qualifier_ + "." + std::string(item.name());
      definition->is_class_ = item.class_def != nullptr;
      definition->version_ = version_;
      auto text = std::make_unique<Definition::Text>();
      text->file = file.value();
      text->item = &item;
      definition->text_.set(std::move(text));
      piece.definition = definition.get();
      parsed->by_name[std::string(item.name())] = definition.get();
      parsed->definitions.push_back(std::move(definition));
    }
    parsed->pieces.push_back(std::move(piece));
  }
  return parsed;
}

CodeFile::Parsed& CodeFile::parsed() const {
  return parsed_.get([this] { return parse(); });
}

Result<const std::vector<CodeFile::Piece>*> CodeFile::pieces() const {
  const Parsed& now = parsed();
  TENON_TRY(now.status);
  return &now.pieces;
}

Result<Definition*> CodeFile::find(std::string_view base_name) const {
  const Parsed& now = parsed();
  TENON_TRY(now.status);
  const auto found = now.by_name.find(base_name);
  return found == now.by_name.end() ? nullptr : found->second;
}

void CodeFile::add(std::unique_ptr<Definition> definition, Piece piece) {
  Parsed& now = parsed();
  piece.definition = definition.get();
  now.by_name[definition->name().substr(qualifier_.size() + 1)] = definition.get();
  now.definitions.push_back(std::move(definition));
  now.pieces.push_back(std::move(piece));
  is_changed_ = true;
}

}  // namespace tenon::module

#include "tensor/portable.h"

#include <algorithm>

#include "memory/ledger.h"
#include "memory/spare.h"
#include "os/host.h"
#include "os/token.h"
#include "tensor/pack.h"

namespace tenon::tensor {

Result<std::unique_ptr<Descriptor>> Descriptor::create(const Message& message, bool bytes_only) {
  auto descriptor = std::make_unique<Descriptor>();
  // Device memory has no fd. Only a connection carries it.
  for (const Message::Item& item : message.items()) {
    if (item.tensor->storage()->device_memory() == nullptr) continue;
    TENON_TRY(share::check_lend(*item.tensor->storage(), item.access).status());
  }
  Packed packed;
  // A bytes-only descriptor cannot carry a token, so the blocks that it lends are retired.
  TENON_TRY(pack(message, bytes_only ? Leases::kNo : Leases::kYes, &packed));
  // The descriptor has fds of its own, because those of the segments may be closed with the last
  // storage.
  for (size_t i = 0; i < packed.fds.size(); ++i) {
    TENON_ASSIGN(os::Fd fd, memory::with_spare([&] { return os::duplicate(packed.fds[i]); }));
    SegmentRecord& record = packed.content.segments[i];
    if (bytes_only) {
      record.reach = Reach::kProc;
      record.fd_index = 0;
      record.pid = os::process_id();
      record.proc_fd = fd.get();
      record.nonce = packed.segments[i]->nonce();
    } else {
      descriptor->numbers_.push_back(fd.get());
    }
    descriptor->fds_.push_back(std::move(fd));
  }
  TENON_TRY(descriptor->take_leases(packed));
  packed.content.leased = descriptor->token_ != nullptr;
  packed.content.sender_pid = os::process_id();
  packed.content.boot_id = os::host_identity().boot_id;
  packed.content.pid_namespace = os::host_identity().pid_namespace;
  descriptor->bytes_ = encode_descriptor(packed.content);
  descriptor->segments_ = std::move(packed.segments);
  for (const Message::Item& item : message.items()) descriptor->tensors_.push_back(item.tensor);
  return descriptor;
}

Descriptor::~Descriptor() {
  token_ = nullptr;
  if (ledger_ && ledger_->made_by_this_process()) memory::settle_ledger(*ledger_);
}

Status Descriptor::take_leases(const Packed& packed) {
  std::vector<memory::Leased*> objects;
  for (memory::Leased* const leased : packed.leased) {
    if (leased != nullptr) objects.push_back(leased);
  }
  if (objects.empty()) return Status::ok();
  TENON_ASSIGN(ledger_, memory::Ledger::create({os::process_id(), 0}, false));
  // If a later step fails, the token is closed, and the ledger ends.
  token_ = ledger_->take_fds();
  std::vector<uint32_t> slots(objects.size());
  TENON_TRY(ledger_->grant(objects, slots.data()));
  numbers_.push_back(token_->token.get());
  for (const memory::Holding* holding : packed.upstream) {
    for (std::shared_ptr<memory::LeaseToken>& token : holding->tokens()) {
      if (std::find(upstream_.begin(), upstream_.end(), token) != upstream_.end()) continue;
      numbers_.push_back(token->fd.get());
      upstream_.push_back(std::move(token));
    }
  }
  return Status::ok();
}

Result<os::Fd> fetch_segment_fd(const SegmentRecord& record, const DescriptorContent& content,
                                bool other_user) {
  const os::HostIdentity& here = os::host_identity();
  if (content.boot_id != here.boot_id) {
    return Status(Code::kPeerGone,
                  "the descriptor was made on another machine, or before this one started")
        .with("field", std::string("boot_id"));
  }
  if (content.pid_namespace != here.pid_namespace) {
    return Status(Code::kUnsupported,
                  "a bytes-only descriptor cannot cross pid namespaces: send its fds")
        .with("field", std::string("pid_namespace"));
  }
  const os::RemoteFile file{record.pid,    record.proc_fd, record.device, record.inode,
                            record.nbytes, record.nonce,   other_user};
  return os::open_remote_fd(file,
                            record.access == static_cast<uint32_t>(memory::Access::kWritable));
}

Result<std::unique_ptr<Message>> open_descriptor(std::span<const std::byte> bytes,
                                                 std::span<const int32_t> fds,
                                                 const share::OpenOptions& options) {
  const std::vector<std::byte> own(bytes.begin(), bytes.end());
  TENON_ASSIGN(DescriptorContent content, decode_descriptor(own, fds.size(), DescriptorLimits()));
  const auto by_fd =
      std::count_if(content.segments.begin(), content.segments.end(),
                    [](const SegmentRecord& record) { return record.reach == Reach::kFd; });
  const auto of_segments = static_cast<size_t>(by_fd);
  if (content.leased ? fds.size() <= of_segments : fds.size() != of_segments) {
    return Status(Code::kInvalidArgument,
                  format("%zu fds for a descriptor that was made with %s%zu", fds.size(),
                         content.leased ? "more than " : "", of_segments))
        .with("field", std::string("n_fds"));
  }
  const std::vector<uint64_t> needed = needed_nbytes(content);
  std::vector<os::Fd> fetched;
  std::vector<Resolved> resolved;
  resolved.reserve(content.segments.size());
  for (size_t i = 0; i < content.segments.size(); ++i) {
    const SegmentRecord& record = content.segments[i];
    if (record.reach == Reach::kKnown) {
      return Status(Code::kCorrupt,
                    "the descriptor counts on a segment that crossed a connection before")
          .with("field", std::string("segment.reach"));
    }
    Resolved one;
    os::Fd own_fd;
    if (record.reach == Reach::kProc) {
      TENON_ASSIGN(own_fd, fetch_segment_fd(record, content, options.other_user));
      one.fd = own_fd.get();
    } else {
      one.fd = fds[record.fd_index];
    }
    if (!options.is_private()) {
      os::Fd* adopt = own_fd.is_open() ? &own_fd : nullptr;
      TENON_ASSIGN(one.segment,
                   share::open_segment(one.fd, static_cast<memory::Access>(record.access),
                                       record.nbytes, needed[i], options, adopt));
    }
    if (own_fd.is_open()) fetched.push_back(std::move(own_fd));
    resolved.push_back(std::move(one));
  }
  std::vector<memory::Lease> leases;
  if (content.leased) {
    Ref<memory::Holding> holding;
    for (const int32_t fd : fds.subspan(of_segments)) {
      TENON_ASSIGN(os::Fd token, os::duplicate(fd));
      token.mark_foreign();
      os::Fd none;
      if (!holding) {
        TENON_ASSIGN(holding, memory::Holding::open(&token, &none, &none));
        continue;
      }
      if (!os::is_token(token.get()))
        return Status(Code::kCorrupt, "a token that is no end of a pipe")
            .with("field", std::string("tokens"));
      if (memory::own_ledger_of(token.get()) == 0)
        holding->inherit(memory::make_token(std::move(token)));
    }
    for (size_t i = 0; i < content.storages.size(); ++i) leases.emplace_back(holding, 0);
  }
  std::vector<Ref<storage::Storage>> storages;
  return unpack(std::move(content), resolved, leases, options, &storages);
}

}  // namespace tenon::tensor

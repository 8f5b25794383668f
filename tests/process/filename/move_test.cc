// Private memory moves into a named file, but only while no pointer to its old place can exist.
#include "process/filename/agent.h"

namespace names {
namespace {

TEST(Move, UntouchedPrivateMemory) {
  IN_FOLDER([](const Folder& folder) {
    Agent other;
    for (const uint64_t nbytes :
         {uint64_t{0}, uint64_t{1}, uint64_t{100}, uint64_t{5000}, uint64_t{3} << 20}) {
      tenon_storage* storage =
          fault::new_storage(nbytes, 4, TENON_MODE_SHARED, TENON_STORAGE_PRIVATE);
      const uint64_t id = tenon_storage_id(storage);
      CHECK(!tenon_storage_is_shared(storage));
      const tenon_filename_handle handle = share(storage, {.directory = folder.path()});
      CHECK(handle.offset == 0 && handle.nbytes == nbytes &&
            handle.access == TENON_ACCESS_WRITABLE);
      CHECK_EQ(look(path_of(handle)).st_size, static_cast<int64_t>(64 + nbytes));
      CHECK(tenon_storage_is_shared(storage) && tenon_storage_id(storage) == id &&
            tenon_storage_nbytes(storage) == nbytes);
      CHECK(shows_pattern(storage, 4));
      const Done there = other.open(handle);
      REQUIRE(there.ok());
      CHECK(other.shows(there.slot, 4));
      put_pattern(storage, 5);
      CHECK(other.shows(there.slot, 5));
      // The identity cache lists the moved storage like any other.
      if (nbytes > 0) {
        tenon_storage* again = open_name(handle);
        CHECK(again == storage);
        tenon_storage_release(again);
      }
      CHECK(std::strcmp(share(storage).name, handle.name) == 0);
      other.release(there.slot);
      tenon_storage_release(storage);
      CHECK(folder.becomes_empty());
    }
  });
}

TEST(Move, CopiesOfOthersMove) {
  IN_FOLDER([](const Folder& folder) {
    const std::vector<unsigned char> bytes = fault::pattern(5000, 6);
    const tenon_storage_options options =
        fault::storage_options(TENON_MODE_SHARED, TENON_STORAGE_PRIVATE);
    tenon_storage* copied = nullptr;
    REQUIRE_OK(tenon_storage_new_from(&options, bytes.data(), bytes.size(), &copied, err));
    CHECK(shows_pattern(
        open_name(share(copied, {.directory = folder.path()}), TENON_OPEN_PRIVATE_COPY), 6));
    tenon_storage* snapshot = open_name(share(copied), TENON_OPEN_PRIVATE_COPY);
    const tenon_filename_handle handle = share(snapshot, {.directory = folder.path()});
    CHECK(std::strcmp(handle.name, share(copied).name) != 0);
    CHECK(shows_pattern(snapshot, 6));
    tenon_storage_release(snapshot);
    tenon_storage_release(copied);
  });
}

// Reading and writing through the library reveals no pointer.
TEST(Move, ReadingAndWritingExposesNothing) {
  IN_FOLDER([](const Folder& folder) {
    tenon_storage* storage = fault::new_storage(100, 4, TENON_MODE_SHARED, TENON_STORAGE_PRIVATE);
    char bytes[100];
    CHECK_OK(tenon_storage_read(storage, 0, bytes, sizeof bytes, err));
    CHECK_OK(tenon_storage_write(storage, 0, bytes, sizeof bytes, err));
    tenon_weak* weak = nullptr;
    REQUIRE_OK(tenon_weak_ref(storage, &weak, err));
    tenon_filename_handle handle = blank_handle();
    CHECK(try_share(storage, {.directory = folder.path()}, &handle).ok());
    tenon_storage* locked = tenon_weak_lock(weak);
    CHECK(locked == storage);
    tenon_storage_release(locked);
    tenon_storage_release(storage);
    CHECK(tenon_weak_expired(weak));
    tenon_weak_release(weak);
  });
}

void check_share_refused(const char* what, void (*expose)(tenon_storage* storage)) {
  const Folder folder;
  tenon_storage* storage = fault::new_storage(100, 4, TENON_MODE_SHARED, TENON_STORAGE_PRIVATE);
  expose(storage);
  tenon_filename_handle handle = blank_handle();
  const Outcome refused = try_share(storage, {.directory = folder.path()}, &handle);
  CHECK_SAYING(refused.status == TENON_UNSUPPORTED && !refused.detail("option").empty(),
               std::string(what) + ": " + refused.text());
  CHECK(folder.empty() && handle.name[0] == '\0');
  CHECK(!tenon_storage_is_shared(storage));
  CHECK(shows_pattern(storage, 4));
  tenon_storage_release(storage);
}

TEST(Move, NotWhatWasHandedOut) {
  IN_CHILD([] {
    check_share_refused("tenon_storage_data", [](tenon_storage* storage) {
      CHECK(tenon_storage_data(storage) != nullptr);
    });
    check_share_refused("tenon_storage_data_mut", [](tenon_storage* storage) {
      void* data = nullptr;
      CHECK_OK(tenon_storage_data_mut(storage, &data, err));
    });
    check_share_refused("tenon_tensor_data", [](tenon_storage* storage) {
      tenon_tensor* tensor = fault::new_tensor(storage);
      CHECK(tenon_tensor_data(tensor) != nullptr);
      tenon_tensor_release(tensor);
    });
    check_share_refused("tenon_tensor_data_mut", [](tenon_storage* storage) {
      tenon_tensor* tensor = fault::new_tensor(storage);
      void* data = nullptr;
      CHECK_OK(tenon_tensor_data_mut(tensor, &data, err));
      tenon_tensor_release(tensor);
    });
  });
}

// A tensor whose pointer was never asked for moves with its storage.
TEST(Move, ATensorMovesAlong) {
  IN_FOLDER([](const Folder& folder) {
    tenon_storage* storage = fault::new_storage(100, 4, TENON_MODE_SHARED, TENON_STORAGE_PRIVATE);
    tenon_tensor* tensor = fault::new_tensor(storage);
    tenon_filename_handle handle = blank_handle();
    const Outcome moved = try_share(storage, {.directory = folder.path()}, &handle);
    CHECK_SAYING(moved.ok(), moved.text());
    CHECK(tenon_tensor_data(tensor) == tenon_storage_data(storage));
    CHECK(fault::has_pattern(tenon_tensor_data(tensor), 100, 4));
    tenon_tensor_release(tensor);
    tenon_storage_release(storage);
  });
}

TEST(Move, NotWhatBelongsToSomebodyElse) {
  IN_FOLDER([](const Folder& folder) {
    static unsigned char bytes[100];
    tenon_storage* wrapped = nullptr;
    REQUIRE_OK(tenon_storage_wrap(bytes, sizeof bytes, nullptr, nullptr, nullptr, &wrapped, err));
    tenon_filename_handle handle = blank_handle();
    Outcome refused = try_share(wrapped, {.directory = folder.path()}, &handle);
    CHECK_SAYING(refused.status == TENON_UNSUPPORTED, refused.text());
    tenon_storage* named = create({.directory = folder.path()}, 100);
    tenon_storage* cow =
        open_name(share(named), TENON_OPEN_PRIVATE_COW | TENON_OPEN_ALLOW_UNSEALED);
    refused = try_share(cow, {.directory = folder.path()}, &handle);
    CHECK_SAYING(refused.status == TENON_UNSUPPORTED, refused.text());
    tenon_storage_release(cow);
    tenon_storage_release(named);
    tenon_storage_release(wrapped);
  });
}

// A failed move changes nothing, and the next one may succeed.
TEST(Move, Failed) {
  IN_FOLDER([](const Folder& folder) {
    tenon_storage* storage = fault::new_storage(1000, 4, TENON_MODE_SHARED, TENON_STORAGE_PRIVATE);
    tenon_storage* taken = create({.directory = folder.path(), .name = "taken"}, 10);
    tenon_filename_handle handle = blank_handle();
    CHECK_NAMES(TENON_PERMISSION, folder.at("taken"),
                try_share(storage, {.directory = folder.path(), .name = "taken"}, &handle));
    CHECK_NAMES(TENON_NOT_FOUND, folder.at("none"),
                try_share(storage, {.directory = folder.at("none")}, &handle));
    CHECK_EQ(
        try_share(storage, {.directory = folder.path(), .access = TENON_ACCESS_READ_ONLY}, &handle)
            .status,
        TENON_PERMISSION);
    CHECK_SAYING(!tenon_storage_is_shared(storage),
                 "a lend that is refused moved the storage all the same");
    CHECK_EQ(folder.leaves().size(), 1);
    CHECK(handle.name[0] == '\0');
    CHECK(try_share(storage, {.directory = folder.path()}, &handle).ok());
    CHECK(shows_pattern(storage, 4));
    tenon_storage_release(taken);
    tenon_storage_release(storage);
  });
}

// Shared memory without a name gets a socket and stays where it is.
TEST(Move, SharedMemoryDoesNotMove) {
  IN_FOLDER([](const Folder& folder) {
    for (const tenon_mode mode : fault::kModes) {
      tenon_storage* storage = fault::new_storage(1000, 4, mode);
      const void* data = tenon_storage_data(storage);
      const tenon_filename_handle handle = share(storage, {.directory = folder.path()});
      CHECK(S_ISSOCK(look(path_of(handle)).st_mode));
      CHECK(tenon_storage_data(storage) == data);
      tenon_filename_handle torch = blank_handle();
      const Outcome refused = try_share(storage, {.flags = TENON_FILENAME_TORCH}, &torch);
      CHECK_SAYING(refused.status == TENON_UNSUPPORTED &&
                       refused.detail("option") == "tenon_storage_new_filename",
                   refused.text());
      let_go(storage);
    }
    // The storage is not frozen yet, so the rule of every lend applies.
    const tenon_storage_options options = fault::storage_options(TENON_MODE_FROZEN, 0);
    tenon_storage* open = nullptr;
    REQUIRE_OK(tenon_storage_new(&options, 100, &open, err));
    tenon_filename_handle handle = blank_handle();
    CHECK_EQ(try_share(open, {.directory = folder.path()}, &handle).status, TENON_PERMISSION);
    tenon_storage_release(open);
    CHECK(folder.becomes_empty());
  });
}

}  // namespace
}  // namespace names

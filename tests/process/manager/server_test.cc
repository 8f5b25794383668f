// These tests check the manager's rules: which names it removes when a process dies, and which
// stay.
#include "process/manager/kit.h"

namespace manager_test {
namespace {

using Server = ManagerTest;

// Whether the manager notices the end of another sender. It handles ends in order, so it has
// handled all earlier ends by then.
bool sees_another_end(const std::string& socket, const std::string& folder) {
  Child second = holder(socket, folder);
  DeletionWatch watch(folder);
  second.end(SIGKILL);
  return watch.wait(1);
}

TEST_F(Server, AnswersAndEndsWithItsLastClient) {
  start();
  Client client(socket());
  EXPECT_TRUE(client.add("/torch_1_2_3"));
  EXPECT_TRUE(client.add("/any-name"));
  EXPECT_TRUE(client.subtract("/torch_1_2_3"));
  EXPECT_TRUE(client.add("/torch_1_2_4"));
  const auto start = Clock::now();
  client.hang_up();
  EXPECT_TRUE(manager_->child().ended_in_time());
  EXPECT_GE(ms_since(start), 400);
  EXPECT_EQ(manager_->child().end(), 0);
  EXPECT_FALSE(is_there(socket()));
}

TEST_F(Server, WhatAKilledSenderHeldGoesAtOnce) {
  const Client other = start_with_client();
  Child child = holder();
  ASSERT_TRUE(is_there(file(name_of(child))));
  DeletionWatch watch(objects_.path());
  const auto start = Clock::now();
  child.end(SIGKILL);
  EXPECT_TRUE(watch.wait(1));
  std::printf("a killed sender's name was gone after %.1f ms\n", us_since(start) / 1000);
}

TEST_F(Server, AMessageOfAKilledSenderStaysWhileThereAreClients) {
  Client other = start_with_client();
  Child child = holder(1);
  const std::string name = name_of(child);
  child.end(SIGKILL);
  // The manager sees the second sender's end after the first one's.
  Child second = holder();
  DeletionWatch watch(objects_.path());
  second.end(SIGKILL);
  ASSERT_TRUE(watch.wait(1));
  EXPECT_TRUE(is_there(file(name)));
  other.hang_up();
  EXPECT_TRUE(watch.wait(2));
  EXPECT_FALSE(is_there(file(name)));
}

TEST_F(Server, WhatAnotherClientHoldsStaysUntilThatLetsGo) {
  start();
  Child child = holder();
  const std::string name = name_of(child);
  const Client consumer(socket());
  ASSERT_TRUE(consumer.add("/" + name));
  File held = File::reach(file(name));
  ASSERT_TRUE(held.is_held());
  std::strcpy(held.data(), "bytes");
  child.end(SIGKILL);
  const Client witness(socket());
  ASSERT_TRUE(witness.add("/torch_1_2_3"));
  EXPECT_TRUE(is_there(file(name)));
  EXPECT_STREQ(held.data(), "bytes");
  DeletionWatch watch(objects_.path());
  // The dead holder's part is still in the count, so PyTorch would never remove the name.
  EXPECT_EQ(held.add(-1), 1);
  held.let_go();
  EXPECT_TRUE(consumer.subtract("/" + name));
  EXPECT_TRUE(watch.wait(1));
}

TEST_F(Server, WhatAStrangerHoldsStaysUntilThatLetsGo) {
  const Client other = start_with_client();
  Child child = holder();
  const std::string name = name_of(child);
  File held(file(name), 0, 0);  // not counted and not registered
  ASSERT_TRUE(held.is_held());
  child.end(SIGKILL);
  Child second = holder();
  DeletionWatch watch(objects_.path());
  second.end(SIGKILL);
  ASSERT_TRUE(watch.wait(1));
  EXPECT_TRUE(is_there(file(name)));
  held.let_go();
  EXPECT_TRUE(watch.wait(2));
}

TEST_F(Server, WhatAStrangerHoldsOutlivesTheManager) {
  start();
  Child child = holder();
  const std::string name = name_of(child);
  const File held(file(name), 0, 1);
  child.end(SIGKILL);
  EXPECT_TRUE(manager_->child().ended_in_time());
  EXPECT_TRUE(is_there(file(name)));
  unlink(file(name).c_str());
}

// A process that ends closes its connection at once, and the kernel takes its memory apart later.
TEST_F(Server, WhatAnEndingClientStillHoldsGoesWithIt) {
  start();
  const Signal ready;
  Child child([&] {
    Client client(socket());
    const std::string leaf = own_name();
    if (!client.add("/" + leaf)) return 2;
    const File made = File::make(objects_.path() + "/" + leaf);
    client.hang_up();
    ready.give();
    std::this_thread::sleep_for(milliseconds(2000));  // the manager lingers for 500 ms
    return 0;
  });
  ASSERT_TRUE(ready.wait());
  const std::string name = name_of(child);
  EXPECT_TRUE(manager_->child().ended_in_time());
  EXPECT_EQ(child.end(), 0);
  EXPECT_FALSE(is_there(file(name)));
}

TEST_F(Server, AMessageOutlivesItsSendersOrderlyEnd) {
  const Client other = start_with_client();
  // The sender registers, sends a message, lets go, deallocates and ends before the manager reads
  // any of that.
  manager_->child().signal(SIGSTOP);
  const Signal done;
  Child sender([&] {
    const Client client(socket());
    const std::string leaf = own_name();
    client.say(0, "/" + leaf);
    File made = File::make(objects_.path() + "/" + leaf);
    made.add(1);
    made.add(-1);
    made.let_go();
    client.subtract("/" + leaf);
    return 0;
  });
  const std::string name = name_of(sender);
  ASSERT_EQ(sender.end(), 0);
  manager_->child().signal(SIGCONT);
  // The manager handles the death of this second process after the sender's end.
  Child second = holder();
  DeletionWatch watch(objects_.path());
  second.end(SIGKILL);
  ASSERT_TRUE(watch.wait(1));
  ASSERT_TRUE(is_there(file(name)));
  // A receiver takes the message and dies with it.
  const Signal received;
  Child receiver([&] {
    const Client client(socket());
    if (!client.add("/" + name)) return 2;
    const File held = File::reach(objects_.path() + "/" + name);
    if (held.add(-1) != 1) return 3;
    return stay(received);
  });
  ASSERT_TRUE(received.wait());
  EXPECT_TRUE(is_there(file(name)));
  receiver.end(SIGKILL);
  EXPECT_TRUE(watch.wait(2));
}

// The manager handles all messages of a sender before its end, however many there are.
TEST_F(Server, AnEndIsTheLastThingThatIsHeardOfASender) {
  const Client other = start_with_client();
  const Signal registered;
  const Signal stopped;
  Child sender([&] {
    const Client client(socket());
    const std::string leaf = own_name();
    if (!client.add("/" + leaf)) return 2;
    File made = File::make(objects_.path() + "/" + leaf);
    made.add(1);  // a message is in flight
    registered.give();
    if (!stopped.wait()) return 3;
    for (int i = 0; i < 100; ++i) client.subtract("/torch_9_9_" + std::to_string(i));
    made.add(-1);
    made.let_go();
    client.subtract("/" + leaf);
    return 0;
  });
  const std::string name = name_of(sender);
  ASSERT_TRUE(registered.wait());
  manager_->child().signal(SIGSTOP);
  stopped.give();
  ASSERT_EQ(sender.end(), 0);
  manager_->child().signal(SIGCONT);
  ASSERT_TRUE(sees_another_end(socket(), objects_.path()));
  EXPECT_TRUE(is_there(file(name)));
  unlink(file(name).c_str());
}

TEST_F(Server, AnOrderlySendersMessageIsWaitedForLonger) {
  start();
  Client client(socket());
  const std::string leaf = own_name();
  ASSERT_TRUE(client.add("/" + leaf));
  {
    const File made = File::make(file(leaf));
    made.add(1);
    made.add(-1);
  }
  ASSERT_TRUE(client.subtract("/" + leaf));
  ASSERT_TRUE(client.add("/torch_1_2_3"));  // the answer proves that all earlier messages were read
  const auto start = Clock::now();
  client.hang_up();
  EXPECT_TRUE(manager_->child().ended_in_time());
  EXPECT_GE(ms_since(start), 1500);
  EXPECT_FALSE(is_there(file(leaf)));
}

TEST_F(Server, ANameThatCouldNotBeOpenedIsNobodys) {
  Client other = start_with_client();
  const Signal registered;
  Child child([&] {
    const Client client(socket());
    if (!client.add("/torch_99_1_0")) return 2;  // there is no such file
    return stay(registered);
  });
  ASSERT_TRUE(registered.wait());
  File::make(file("torch_99_1_0")).let_go();  // made by a process that does not use this manager
  child.end(SIGKILL);
  other.hang_up();
  EXPECT_TRUE(manager_->child().ended_in_time());
  EXPECT_TRUE(is_there(file("torch_99_1_0")));
  unlink(file("torch_99_1_0").c_str());
}

TEST_F(Server, AnotherFileOfTheSameNameStays) {
  const Client other = start_with_client();
  {
    const File old = File::make(file("name"));
  }
  const Signal registered;
  Child child([&] {
    const Client client(socket());
    if (!client.add("/name")) return 2;
    return stay(registered);
  });
  ASSERT_TRUE(registered.wait());
  unlink(file("name").c_str());
  {
    const File made = File::make(file("name"));
  }
  child.end(SIGKILL);
  ASSERT_TRUE(sees_another_end(socket(), objects_.path()));
  EXPECT_TRUE(is_there(file("name")));
  unlink(file("name").c_str());
}

TEST_F(Server, LinksFoldersAndOthersFilesStay) {
  start();
  Client other(socket());
  const std::string target = file("target");
  {
    const File made = File::make(target);
  }
  ASSERT_EQ(symlink(target.c_str(), file("link").c_str()), 0);
  ASSERT_EQ(mkdir(file("folder").c_str(), 0700), 0);
  ASSERT_EQ(mkfifo(file("pipe").c_str(), 0600), 0);
  {
    const File made = File::make(file("foreign"));
  }
  const bool foreign = geteuid() == 0 && chown(file("foreign").c_str(), 12345, 12345) == 0;
  const Signal registered;
  Child child([&] {
    const Client client(socket());
    for (const char* name : {"/link", "/folder", "/pipe", "/foreign"}) {
      if ((foreign || std::strcmp(name, "/foreign") != 0) && !client.add(name)) return 2;
    }
    return stay(registered);
  });
  ASSERT_TRUE(registered.wait());
  child.end(SIGKILL);
  ASSERT_TRUE(other.add("/torch_1_2_3"));
  other.hang_up();
  EXPECT_TRUE(manager_->child().ended_in_time());
  for (const char* name : {"target", "link", "pipe", "foreign"}) {
    EXPECT_TRUE(is_there(file(name))) << name;
    unlink(file(name).c_str());
  }
  EXPECT_EQ(rmdir(file("folder").c_str()), 0);
}

// PyTorch's children of fork go on using their parent's socket.
TEST_F(Server, ChildrenThatShareASocketAreToldApart) {
  start();
  const Client shared(socket());
  const std::string mine = own_name();
  ASSERT_TRUE(shared.add("/" + mine));
  File held = File::make(file(mine));
  const Signal ready;
  Child child([&] {
    const std::string leaf = own_name();
    if (!shared.add("/" + leaf)) return 2;
    const File made = File::make(objects_.path() + "/" + leaf);
    return stay(ready);
  });
  ASSERT_TRUE(ready.wait());
  DeletionWatch watch(objects_.path());
  child.end(SIGKILL);
  EXPECT_TRUE(watch.wait(1));
  EXPECT_TRUE(is_there(file(mine)));
  // The socket still serves the parent.
  EXPECT_TRUE(shared.add("/torch_1_2_3"));
  held.add(-1);
  unlink(file(mine).c_str());
}

TEST_F(Server, HalfMessagesOfTwoSendersOnOneSocketDoNotMix) {
  start();
  const Client shared(socket());
  const auto first = Client::message(0, "/torch_1_1_1");
  ASSERT_TRUE(shared.send_bytes(first.data(), 30));
  Child child([&] {
    const auto whole = Client::message(0, "/torch_2_2_2");
    return shared.send_bytes(whole.data(), whole.size()) ? 0 : 1;
  });
  ASSERT_EQ(child.end(), 0);
  EXPECT_EQ(shared.answer(), "OK");
  ASSERT_TRUE(shared.send_bytes(first.data() + 30, 38));
  EXPECT_EQ(shared.answer(), "OK");
}

TEST_F(Server, AChildThatLetsGoOfWhatItsParentRegisteredKeepsTheSum) {
  const Client other = start_with_client();
  const Signal ready;
  Child parent([&] {
    const Client shared(socket());
    const std::string leaf = own_name();
    if (!shared.add("/" + leaf)) return 2;
    const File made = File::make(objects_.path() + "/" + leaf);
    made.add(1);  // a message is in flight
    Child child([&] {
      made.add(-1);  // the reference that the child inherited and its parent no longer has
      return shared.subtract("/" + leaf) ? 0 : 1;
    });
    if (child.end() != 0) return 3;
    return stay(ready);
  });
  ASSERT_TRUE(ready.wait());
  const std::string name = name_of(parent);
  parent.end(SIGKILL);
  ASSERT_TRUE(sees_another_end(socket(), objects_.path()));
  EXPECT_TRUE(is_there(file(name)));
  unlink(file(name).c_str());
}

TEST_F(Server, ASignalEndsItInOrder) {
  start();
  const Client client(socket());
  Child child = holder();
  manager_->child().signal(SIGTERM);
  EXPECT_TRUE(manager_->child().ended_in_time());
  EXPECT_EQ(manager_->child().end(), 0);
  EXPECT_EQ(client.answer(), "");
  EXPECT_TRUE(is_there(file(name_of(child))));
  EXPECT_TRUE(names_in(place_.path()).empty());
  unlink(file(name_of(child)).c_str());
}

TEST_F(Server, EndsWhenWhoStartedItIsGoneAndNobodyCame) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Child starter([&] {
    Start plain;
    plain.arguments = {"--socket", socket(), "--foreground", "--directory", objects_.path()};
    plain.outlives_us = true;
    Process process(plain);
    const pid_t pid = process.pid();
    if (write(ends[1], &pid, sizeof pid) != sizeof pid) return 1;
    pause();
    return 0;
  });
  pid_t pid = 0;
  ASSERT_EQ(read(ends[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  close(ends[0]);
  close(ends[1]);
  const int manager = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  ASSERT_GE(manager, 0);
  const auto start = Clock::now();
  starter.end(SIGKILL);
  pollfd polled{manager, POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, static_cast<int>(kPatience.count())), 1);
  EXPECT_LT(ms_since(start), 8000) << "it waited as long as for a starter that lives";
  EXPECT_GE(ms_since(start), 400);
  close(manager);
  EXPECT_TRUE(names_in(place_.path()).empty());
}

// A client that connects while the manager decides to end is served or turned away, and never left
// waiting.
TEST_F(Server, NobodyHangsWhileItEnds) {
  int served = 0;
  int turned_away = 0;
  for (int round = 0; round < 60; ++round) {
    Start quick;
    quick.arguments = {"--linger-ms", "0"};
    start(quick);
    Client first(socket());
    ASSERT_TRUE(first.add("/torch_1_2_3"));
    Client second = [&] {
      first.hang_up();
      for (int i = 0; i < round * 20; ++i) {
        volatile int spin = i;
        static_cast<void>(spin);
      }
      return Client(socket());
    }();
    const std::string answer =
        second.error() == 0 && second.say(0, "/torch_1_2_3") ? second.answer() : "";
    ASSERT_NE(answer, "?");
    ++(answer == "OK" ? served : turned_away);
    second.hang_up();
    ASSERT_TRUE(manager_->child().ended_in_time());
    ASSERT_EQ(manager_->child().end(), 0);
    ASSERT_TRUE(names_in(place_.path()).empty());
  }
  std::printf("%d served, %d turned away\n", served, turned_away);
}

}  // namespace
}  // namespace manager_test

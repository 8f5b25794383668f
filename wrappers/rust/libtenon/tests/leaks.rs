//! Tests that the process holds the same at the end as at the beginning. This is the only test of
//! its program, so that no other test changes the figures.

mod common;

use std::panic::{catch_unwind, AssertUnwindSafe};

use tenon::{
    export_module, export_module_to, import_bytes, import_module, Access, ArenaOptions, Cancel,
    Composite, CompositeSpec, Connection, ConnectionOptions, Deposit, Descriptor, ExportOptions,
    FdHandle, Fetched, FilenameOptions, ImportOptions, Message, Module, Object, OpenOptions,
    Publisher, PublisherOptions, Queue, QueueOptions, Storage, StorageMut, StorageOptions,
    Subscriber, Tensor, TensorLayout, TensorMut, Value, Wait,
};

fn everything(folder: &common::Folder) {
    let (ours, theirs) = common::pair();
    let shared = TensorMut::zeros::<f32>(&[1000]).unwrap();
    let frozen = Tensor::frozen(&[1u8; 5000], &[5000]).unwrap();
    let mut message = Message::new().unwrap();
    message.add("shared", &shared).unwrap();
    message.add("frozen", &frozen).unwrap();
    let sparse = Composite::new(&CompositeSpec {
        layout: TensorLayout::SparseCoo,
        sizes: vec![1000],
        values: Some(shared.clone().into()),
        indices: Some(TensorMut::zeros::<i64>(&[1, 1000]).unwrap().into()),
        ..CompositeSpec::default()
    });
    message.add_composite("sparse", &sparse.unwrap()).unwrap();
    ours.send(&message, common::PATIENCE).unwrap();
    let received = theirs.recv(common::PATIENCE).unwrap();
    let _views = received.views();
    let _checked = (
        received.composite(0).unwrap().spec().unwrap(),
        received.find_composite("sparse").unwrap().check().unwrap(),
    );
    let object = Object::from([
        ("shared", Object::from(&shared)),
        ("sparse", received.composite(0).unwrap().into()),
    ]);
    ours.send_object(&object, common::PATIENCE).unwrap();
    let _object = theirs.recv_object(common::PATIENCE).unwrap();
    Message::from_object(&Object::Set(vec![object.clone(), object])).unwrap_err();
    message.object().unwrap_err();

    let handle = shared.storage().share_fd().unwrap();
    let _open = handle.open(OpenOptions::new()).unwrap();
    let _copy = handle.open_writable(OpenOptions::new().private_copy()).unwrap();
    handle.into_storage(OpenOptions::new()).unwrap();
    let descriptor = Descriptor::new(&message).unwrap();
    let fds = descriptor.fds().iter().map(|fd| fd.try_clone_to_owned().unwrap()).collect();
    Descriptor::open_adopting(descriptor.bytes(), fds, Access::Auto, OpenOptions::new()).unwrap();
    let fds = descriptor.fds().iter().map(|fd| fd.try_clone_to_owned().unwrap()).collect();
    Descriptor::open_adopting(&descriptor.bytes()[1..], fds, Access::Auto, OpenOptions::new())
        .unwrap_err();
    FdHandle::new(std::fs::File::open("/dev/null").unwrap().into(), 0, 9)
        .into_storage(OpenOptions::new())
        .unwrap_err();
    Connection::new(std::fs::File::open("/dev/null").unwrap()).unwrap_err();
    let ticket = tenon::deposit(&message).unwrap();
    tenon::fetch(ticket.bytes(), Access::Auto, OpenOptions::new(), common::PATIENCE).unwrap();
    tenon::fetch(ticket.bytes(), Access::Auto, OpenOptions::new(), common::PATIENCE).unwrap_err();
    let deposit = Deposit::new().unwrap();
    let record = deposit.add(&shared.storage()).unwrap();
    deposit.add(&frozen.storage()).unwrap();
    let mut fetched =
        Fetched::new(deposit.head(), Access::Auto, OpenOptions::new(), common::PATIENCE).unwrap();
    let _opened = fetched.storage(&record, common::PATIENCE).unwrap();
    let queue = Queue::new(QueueOptions::new()).unwrap();
    let member = Queue::join(&queue.storage(), QueueOptions::new()).unwrap();
    queue.send(&message, common::PATIENCE).unwrap();
    member.recv(common::PATIENCE).unwrap();
    member.recv(Wait::NOT).unwrap_err();
    member.members().unwrap();
    Queue::join(shared.storage().writable().as_ref().unwrap(), QueueOptions::new()).unwrap_err();
    let publisher = Publisher::new(PublisherOptions::new()).unwrap();
    let address = folder.0.join("publisher");
    publisher.listen(&address, 0).unwrap();
    let subscriber =
        Subscriber::connect(&address, ConnectionOptions::new(), common::PATIENCE).unwrap();
    publisher.publish(&message, common::PATIENCE).unwrap();
    subscriber.recv(common::PATIENCE).unwrap();
    subscriber.recv(Wait::NOT).unwrap_err();
    publisher.subscribers().unwrap();
    publisher.add(std::fs::File::open("/dev/null").unwrap()).unwrap_err();
    Subscriber::new(std::fs::File::open("/dev/null").unwrap(), ConnectionOptions::new())
        .unwrap_err();
    let cancel = Cancel::new().unwrap();
    cancel.trigger();
    theirs.recv(Wait::FOREVER.cancelled_by(&cancel)).unwrap_err();

    let named =
        StorageMut::new_filename(&FilenameOptions::new().directory(&folder.0), 100).unwrap();
    let name = named.share_filename(&FilenameOptions::new(), None).unwrap();
    name.open(OpenOptions::new().allow_unsealed(), None).unwrap();
    let weak = named.downgrade().unwrap();
    drop(named);
    assert!(weak.upgrade().is_none());

    let arena = ArenaOptions::new().capacity(1 << 20).prefault(1 << 16).create().unwrap();
    let born = StorageOptions::new().arena(&arena.clone()).create(100).unwrap();
    drop(arena);
    born.write(0, b"after the arena").unwrap();

    Tensor::from_dlpack(shared.to_dlpack().unwrap()).unwrap();
    drop(Storage::wrap::<u8, _>(vec![1, 2, 3]).unwrap());

    let mut module = Module::new("Net").unwrap();
    module.add_parameter("weight", &shared).unwrap();
    let child = Module::new("Child").unwrap();
    module.add_submodule("child", &child).unwrap();
    module.add_attribute("sizes", Some("List[int]"), Value::list(None, [1, 2]).unwrap()).unwrap();
    module.add_attribute("bad", Some("int"), "text").unwrap_err();
    let mut bytes = Vec::new();
    export_module_to(&module, &mut bytes, &ExportOptions::new()).unwrap();
    let path = folder.0.join("net.pt");
    export_module(&module, &path, &ExportOptions::new()).unwrap();
    let weight = import_module(&path, &ImportOptions::new())
        .unwrap()
        .value("weight")
        .unwrap()
        .to_tensor()
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    import_bytes(bytes[..100].to_vec(), &ImportOptions::new()).unwrap_err();
    let read = import_bytes(bytes, &ImportOptions::new()).unwrap();
    let _members =
        (read.members().unwrap(), read.tensors().unwrap(), read.constants().unwrap(), weight);
    StorageOptions::new().alignment(3).create(9).unwrap_err();
    let panicking = catch_unwind(AssertUnwindSafe(|| {
        let _tensor = TensorMut::zeros::<u8>(&[10]).unwrap();
        panic!("with a tensor in hand");
    }));
    assert!(panicking.is_err());
}

#[test]
fn nothing_is_left() {
    common::watchdog();
    let folder = common::Folder::new();
    // The library's thread may still have an arena that it makes ready. It releases the arena a
    // moment after all others.
    let held = || {
        tenon::trim();
        (common::open_fds(), tenon::stats().unwrap().storages, tenon::stats().unwrap().segments)
    };
    everything(&folder); // the first use starts what stays: a thread, the arena
    common::soon(|| held().2 == 0);
    let before = held();
    for _ in 0..10 {
        everything(&folder);
    }
    common::soon(|| held() == before);
    assert_eq!(held(), before);
    assert_eq!(tenon::stats().unwrap().storages, 0);
    assert!(folder.names().is_empty());
}

//! Code that must not compile. Beside each snippet that the compiler refuses stands one that it
//! accepts and that differs in one point only. So the first one is refused for that reason. Only
//! `cargo test` sees this file.

/// A slice cannot outlive its tensor.
/// ```compile_fail,E0597
/// let slice;
/// {
///     let tensor = tenon::Tensor::frozen(&[1u8, 2], &[2]).unwrap();
///     slice = tensor.as_slice::<u8>().unwrap();
/// }
/// assert_eq!(slice[0], 1);
/// ```
/// ```
/// let slice;
/// let tensor = tenon::Tensor::frozen(&[1u8, 2], &[2]).unwrap();
/// {
///     slice = tensor.as_slice::<u8>().unwrap();
/// }
/// assert_eq!(slice[0], 1);
/// ```
pub struct SliceOutlivesTensor;

/// A tensor cannot be dropped under its cells.
/// ```compile_fail,E0505
/// let tensor = tenon::TensorMut::zeros::<f32>(&[2]).unwrap();
/// let cells = tensor.cells::<f32>().unwrap();
/// drop(tensor);
/// cells[0].set(1.0);
/// ```
/// ```
/// let tensor = tenon::TensorMut::zeros::<f32>(&[2]).unwrap();
/// let cells = tensor.cells::<f32>().unwrap();
/// cells[0].set(1.0);
/// drop(tensor);
/// ```
pub struct TensorDroppedUnderCells;

/// Views borrow from the message.
/// ```compile_fail,E0505
/// let message = tenon::Message::new().unwrap();
/// let views = message.views();
/// drop(message);
/// assert!(views.is_empty());
/// ```
/// ```
/// let message = tenon::Message::new().unwrap();
/// let views = message.views();
/// assert!(views.is_empty());
/// drop(message);
/// ```
pub struct MessageDroppedUnderViews;

/// A message cannot be changed while its bytes are borrowed.
/// ```compile_fail,E0502
/// let mut message = tenon::Message::new().unwrap();
/// let bytes = message.user_bytes();
/// message.set_user_bytes(b"new").unwrap();
/// assert!(bytes.is_empty());
/// ```
/// ```
/// let mut message = tenon::Message::new().unwrap();
/// let bytes = message.user_bytes();
/// assert!(bytes.is_empty());
/// message.set_user_bytes(b"new").unwrap();
/// ```
pub struct MessageChangedUnderView;

/// A frozen storage has no `write`.
/// ```compile_fail,E0599
/// let storage = tenon::StorageOptions::new().copy_frozen(b"frozen").unwrap();
/// storage.write(0, b"x").unwrap();
/// ```
/// ```no_run
/// let storage = tenon::StorageOptions::new().copy_from(b"frozen").unwrap();
/// storage.write(0, b"x").unwrap();
/// ```
pub struct FrozenHasNoWrite;

/// A writable lend takes a writable tensor.
/// ```compile_fail,E0308
/// let tensor = tenon::Tensor::frozen(&[1u8], &[1]).unwrap();
/// tenon::Message::new().unwrap().add_writable("x", &tensor).unwrap();
/// ```
/// ```
/// let tensor = tenon::TensorMut::copy_of(&[1u8], &[1]).unwrap();
/// tenon::Message::new().unwrap().add_writable("x", &tensor).unwrap();
/// ```
pub struct WritableLendOfReadOnly;

/// The cells of a read-only tensor cannot be set.
/// ```compile_fail,E0599
/// let tensor = tenon::Tensor::frozen(&[1u8], &[1]).unwrap();
/// tensor.cells::<u8>().unwrap()[0].set(2);
/// ```
/// ```
/// let tensor = tenon::TensorMut::copy_of(&[1u8], &[1]).unwrap();
/// tensor.cells::<u8>().unwrap()[0].set(2);
/// ```
pub struct ReadCellHasNoSet;

/// A storage that is being filled cannot be lent, read, or written after it was frozen.
/// ```compile_fail,E0382
/// let filling = tenon::StorageOptions::new().fill_frozen(4).unwrap();
/// filling.freeze().unwrap();
/// filling.write(0, b"x").unwrap();
/// ```
/// ```
/// let filling = tenon::StorageOptions::new().fill_frozen(4).unwrap();
/// filling.write(0, b"x").unwrap();
/// filling.freeze().unwrap();
/// ```
pub struct WriteAfterFreeze;

/// Nothing is released twice.
/// ```compile_fail,E0382
/// let storage = tenon::StorageMut::new(4).unwrap();
/// drop(storage);
/// drop(storage);
/// ```
/// ```
/// let storage = tenon::StorageMut::new(4).unwrap();
/// drop(storage.clone());
/// drop(storage);
/// ```
pub struct ReleasedTwice;

/// A cancel cannot be reset while a wait has it, and cannot be dropped before the wait.
/// ```compile_fail,E0502
/// let mut cancel = tenon::Cancel::new().unwrap();
/// let wait = tenon::Wait::FOREVER.cancelled_by(&cancel);
/// cancel.reset();
/// drop(wait);
/// ```
/// ```
/// let mut cancel = tenon::Cancel::new().unwrap();
/// let wait = tenon::Wait::FOREVER.cancelled_by(&cancel);
/// drop(wait);
/// cancel.reset();
/// ```
pub struct CancelResetUnderWait;

/// The fds of a descriptor cannot outlive it.
/// ```compile_fail,E0505
/// let descriptor = tenon::Descriptor::new(&tenon::Message::new().unwrap()).unwrap();
/// let fds = descriptor.fds();
/// drop(descriptor);
/// assert!(fds.is_empty());
/// ```
/// ```
/// let descriptor = tenon::Descriptor::new(&tenon::Message::new().unwrap()).unwrap();
/// let fds = descriptor.fds();
/// assert!(fds.is_empty());
/// drop(descriptor);
/// ```
pub struct FdsOutliveDescriptor;

/// An owner must be fit for another thread, which may be the one that drops it.
/// ```compile_fail,E0277
/// struct Owner(std::rc::Rc<[u8]>);
/// impl AsRef<[u8]> for Owner {
///     fn as_ref(&self) -> &[u8] {
///         &self.0
///     }
/// }
/// tenon::Storage::wrap::<u8, _>(Owner(vec![1].into())).unwrap();
/// ```
/// ```
/// struct Owner(std::sync::Arc<[u8]>);
/// impl AsRef<[u8]> for Owner {
///     fn as_ref(&self) -> &[u8] {
///         &self.0
///     }
/// }
/// tenon::Storage::wrap::<u8, _>(Owner(vec![1].into())).unwrap();
/// ```
pub struct OwnerIsSend;

/// A bool cannot be an element, because other processes may write other bytes than 0 and 1.
/// ```compile_fail,E0277
/// tenon::TensorMut::zeros::<bool>(&[1]).unwrap();
/// ```
/// ```
/// tenon::TensorMut::zeros::<tenon::Bool>(&[1]).unwrap();
/// ```
pub struct BoolIsNoElement;

/// A module can be changed only by code that has it exclusively.
/// ```compile_fail,E0596
/// let module = tenon::Module::new("Net").unwrap();
/// module.add_attribute("n", None, 1).unwrap();
/// ```
/// ```
/// let mut module = tenon::Module::new("Net").unwrap();
/// module.add_attribute("n", None, 1).unwrap();
/// ```
pub struct ModuleChangedByRef;

/// Plain slices of a mapped file take a promise.
/// ```compile_fail,E0133
/// let options = tenon::ImportOptions::new().mapped();
/// ```
/// ```
/// // SAFETY: nothing is imported.
/// let options = unsafe { tenon::ImportOptions::new().mapped() };
/// ```
pub struct MappedIsUnsafe;

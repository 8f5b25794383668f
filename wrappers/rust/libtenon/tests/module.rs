//! Tests of modules that are built, changed and read.

use std::collections::HashSet;

use tenon::{
    ErrorKind, Flags, LoadOptions, MemberKind, Module, StorageOptions, TensorMut, TensorSpec, Value,
};

fn tensor(elements: &[f32]) -> TensorMut {
    let spec = [elements.len() as i64];
    TensorMut::new(
        &StorageOptions::new().copy_from(elements).unwrap(),
        &TensorSpec::of::<f32>(&spec).flags(Flags::REQUIRES_GRAD),
    )
    .unwrap()
}

const FORWARD: &str =
    "def forward(self, x: Tensor) -> Tensor:\n  return torch.mul(x, self.weight)\n";

fn scale(elements: &[f32]) -> Module {
    let mut module = Module::new("layers.Scale").unwrap();
    module.add_parameter("weight", &tensor(elements)).unwrap();
    module.define(FORWARD).unwrap();
    module
}

fn names(members: &[tenon::Member]) -> Vec<&str> {
    members.iter().map(|member| member.name.as_str()).collect()
}

#[test]
fn every_kind_of_member() {
    let mut module = Module::new("Net").unwrap();
    assert_eq!(module.class_name().unwrap(), "__torch__.Net");
    module.add_parameter("weight", &tensor(&[1.0, 2.0])).unwrap();
    module.add_parameter("bias", Value::none()).unwrap();
    module.add_buffer("mean", &TensorMut::zeros::<f32>(&[]).unwrap()).unwrap();
    module.add_attribute("sizes", Some("List[int]"), Value::list(None, [4, 3]).unwrap()).unwrap();
    module.add_attribute("name", None, "net").unwrap();
    module.add_constant("eps", Some("float"), 0.5).unwrap();
    module.add_submodule("child", &scale(&[3.0])).unwrap();
    module
        .define("def forward(self, x: Tensor) -> Tensor:\n  return self.child.forward(x)\n")
        .unwrap();
    module.check().unwrap();

    let members = module.members().unwrap();
    let kind = |name: &str| members.iter().find(|member| member.name == name).unwrap().kind;
    assert_eq!(members.len(), 9); // PyTorch gives every module `training`
    for (name, wanted) in [
        ("weight", MemberKind::Parameter),
        ("bias", MemberKind::Parameter),
        ("mean", MemberKind::Buffer),
        ("sizes", MemberKind::Attribute),
        ("eps", MemberKind::Constant),
        ("child", MemberKind::Submodule),
        ("forward", MemberKind::Method),
    ] {
        assert_eq!(kind(name), wanted, "{name}");
        assert_eq!(module.find(name).unwrap().kind, wanted);
    }
    let method = members.last().unwrap();
    assert_eq!((method.kind.name(), method.value.is_none()), ("method", true));
    assert!(method.source.contains("self.child"), "{method:?}");
    assert_eq!(module.find("sizes").unwrap().type_text, "List[int]");
    assert_eq!(module.value("name").unwrap().as_str().unwrap(), "net");
    assert_eq!(module.value("child").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(module.submodule("sizes").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(names(&module.tensors().unwrap()), ["weight", "mean", "child.weight"]);
    assert_eq!(names(&module.parameters().unwrap()), ["weight", "child.weight"]);
    assert_eq!(names(&module.buffers().unwrap()), ["mean"]);
    let code = module.code_files().unwrap();
    assert!(
        code.iter()
            .any(|(name, text)| name == "__torch__.py" && text.contains("class Net(Module)")),
        "{code:?}"
    );
    assert!(module.constants().unwrap().is_empty());
    assert_eq!(module.import_report().unwrap(), tenon::ImportReport::default());
    assert!(module.warnings().unwrap().is_empty());
    assert!(module.object().unwrap().attributes().unwrap().iter().any(|(name, _)| name == "sizes"));
}

#[test]
fn what_is_wrong_is_said_and_changes_nothing() {
    let mut module = scale(&[1.0]);
    let error = module.add_attribute("n", Some("int"), 0.5).unwrap_err();
    assert_eq!(
        (error.kind(), error.detail("wanted"), error.detail("found")),
        (ErrorKind::InvalidArgument, Some("int"), Some("float"))
    );
    assert_eq!(
        module.add_buffer("weight", &tensor(&[1.0])).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        module.add_buffer("a\0", &tensor(&[1.0])).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    let error = module.define("def f(self) -> int:\n  return (1\n").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.detail("line").is_some() && error.detail("excerpt").is_some(), "{error:?}");
    let error = module.find("weight.more").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
    let error = module.remove("nothing").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains("nothing"), "{error:?}");
    assert_eq!(names(&module.members().unwrap()), ["training", "weight", "forward"]);

    module
        .define("def g(self, x: Tensor) -> Tensor:\n  return torch.no_such_operator(x)\n")
        .unwrap();
    let error = module.check().unwrap_err();
    assert!(error.detail("file").is_some() && error.detail("column").is_some(), "{error:?}");
    module.remove("g").unwrap();
    module.check().unwrap();
}

#[test]
fn an_operand_of_a_wrong_type_is_shown() {
    let mut module = Module::new("Net").unwrap();
    module.define("def bad(self, x: Tensor) -> Tensor:\n  return torch.add(\"a\", x)\n").unwrap();
    let error = module.check().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let message = "code/__torch__.py:7:22: torch.add takes a Tensor as self, and gets a str";
    assert!(error.to_string().starts_with(message), "{error:?}");
    let place = ["file", "line", "column"].map(|key| error.detail(key));
    assert_eq!(place, [Some("code/__torch__.py"), Some("7"), Some("22")]);
    let excerpt = "    return torch.add(\"a\", x)\n                     ^^^";
    assert_eq!(error.detail("excerpt"), Some(excerpt));
}

#[test]
fn change_what_is_there() {
    let mut module = Module::new("Net").unwrap();
    let child = scale(&[1.0]);
    module.add_submodule("a", &child).unwrap();
    module.add_submodule("b", &child).unwrap();
    module.set("a.weight", &tensor(&[5.0, 6.0])).unwrap();
    let new = child.value("weight").unwrap();
    assert_eq!(new.tensor_spec().unwrap().sizes, [2]);
    assert!(module.value("b.weight").unwrap().is_same(&new));
    assert_eq!(module.set("a.weight", 3).unwrap_err().kind(), ErrorKind::InvalidArgument);
    module.set_submodule("b", &scale(&[7.0])).unwrap();
    assert_ne!(module.submodule("a").unwrap(), module.submodule("b").unwrap());
    module.remove("b").unwrap();
    assert_eq!(module.find("b").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(
        module.clone().add_submodule("itself", &module).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn a_module_has_a_state() {
    let mut module = Module::new("Net").unwrap();
    let mut kept = Module::new("Kept").unwrap();
    kept.add_attribute("w", None, &tensor(&[1.0, 2.0])).unwrap();
    kept.define(concat!(
        "def __getstate__(self) -> Tuple[Tensor, int]:\n  return (self.w, 1)\n",
        "def __setstate__(self, s: Tuple[Tensor, int]) -> None:\n",
        "  self.w, k = s\n  self.training = False\n",
    ))
    .unwrap();
    module.add_submodule("kept", &kept).unwrap();
    assert!(module.states().unwrap().is_empty());
    assert_eq!(module.set_state("kept", 3).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let weight = Value::try_from(&tensor(&[5.0])).unwrap();
    module.set_state("kept", Value::tuple([weight.clone(), Value::from(3)]).unwrap()).unwrap();
    assert_eq!(module.states().unwrap(), ["kept.state"]);
    let found = module.find("kept.state[0]").unwrap();
    assert_eq!((found.kind, found.kind.name()), (tenon::MemberKind::State, "state"));
    assert!(found.value.unwrap().is_same(&weight));
    assert_eq!(names(&module.tensors().unwrap()), ["kept.state[0]"]);
    module.check().unwrap();
}

#[test]
fn the_same_object_is_equal() {
    let (one, other) = (scale(&[1.0]), scale(&[1.0]));
    let mut parent = Module::new("Net").unwrap();
    parent.add_submodule("a", &one).unwrap();
    parent.add_submodule("b", &other).unwrap();
    assert_ne!(one, other);
    assert_eq!(parent.submodule("a").unwrap(), one);
    assert_eq!(parent.find("b").unwrap().module.unwrap(), other);
    let all: HashSet<Module> =
        [one.clone(), parent.submodule("a").unwrap(), one, other].into_iter().collect();
    assert_eq!(all.len(), 2);
    assert_eq!(format!("{parent:?}"), "Module(__torch__.Net)");
}

#[test]
fn load_all_or_none() {
    let mut module = Module::new("Net").unwrap();
    module.add_submodule("a", &scale(&[1.0])).unwrap();
    module.add_submodule("b", &scale(&[2.0])).unwrap();
    let (x, y) = (tensor(&[8.0]), tensor(&[9.0]));
    let error = module.load([("a.weight", &x), ("c", &y)], LoadOptions::new()).unwrap_err();
    assert_eq!(
        (error.kind(), error.detail("missing"), error.detail("unexpected")),
        (ErrorKind::InvalidArgument, Some("1"), Some("1"))
    );
    let options = LoadOptions::new().allow_missing().allow_unexpected();
    let report = module.load([("a.weight", &x), ("c", &y)], options.check_only()).unwrap();
    assert_eq!(
        (report.missing, report.unexpected),
        (vec!["b.weight".to_owned()], vec!["c".to_owned()])
    );
    let first = |path: &str, module: &Module| {
        module.value(path).unwrap().to_tensor().unwrap().cells::<f32>().unwrap()[0].get()
    };
    assert_eq!(first("a.weight", &module), 1.0);
    module.load([("a.weight", &x), ("c", &y)], options).unwrap();
    assert_eq!((first("a.weight", &module), first("b.weight", &module)), (8.0, 2.0));
    let report = module.load([("b.weight", &x), ("a.weight", &y)], LoadOptions::new()).unwrap();
    assert_eq!(report, tenon::LoadReport::default());
    assert_eq!((first("a.weight", &module), first("b.weight", &module)), (9.0, 8.0));
}

#[test]
fn types_hooks_inputs_and_files() {
    let mut module = scale(&[1.0]);
    module
        .define_types("__torch__.kinds", "class Pair(NamedTuple):\n  a : int\n  b : Tensor\n")
        .unwrap();
    let pair = Value::named_tuple(
        "__torch__.kinds.Pair",
        [Value::from(1), Value::tensor(&tensor(&[1.0])).unwrap()],
    )
    .unwrap();
    module.add_attribute("pair", Some("__torch__.kinds.Pair"), &pair).unwrap();
    module.define("def hook(self, x: Tuple[Tensor]) -> None:\n  return None\n").unwrap();
    module.set_hooks_before_forward(&["hook"]).unwrap();
    module.set_hooks_before_forward(&[]).unwrap();
    assert!(module
        .set_hooks_after_forward(&["nothing"])
        .unwrap_err()
        .message()
        .contains("nothing"));
    module.set_traced_inputs("forward", [Value::tensor(&tensor(&[1.0])).unwrap()]).unwrap();
    module.set_extra_file("a.txt", "text").unwrap();
    module.set_extra_file("empty", []).unwrap();
    module.set_extra_file("a.txt", b"new").unwrap();
    let files = module.extra_files().unwrap();
    assert_eq!(files, [("a.txt".to_owned(), b"new".to_vec()), ("empty".to_owned(), Vec::new())]);
    module.remove_extra_file("empty").unwrap();
    assert_eq!(module.remove_extra_file("empty").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(module.extra_files().unwrap().len(), 1);

    let mut parent = Module::new("Net").unwrap();
    parent
        .define_types(
            "__torch__",
            "class Layer(ModuleInterface):\n  def forward(self, x: Tensor) -> Tensor:\n    pass\n",
        )
        .unwrap();
    parent.add_submodule_as("layer", &module, "__torch__.Layer").unwrap();
    assert_eq!(
        parent.add_submodule_as("other", &module, "__torch__.No").unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn threads_with_handles_of_one_tree() {
    let mut module = Module::new("Net").unwrap();
    module.add_submodule("child", &scale(&[1.0])).unwrap();
    let object = module.object().unwrap();
    std::thread::scope(|scope| {
        let mut child = module.submodule("child").unwrap();
        scope.spawn(move || {
            for number in 0..300 {
                child.add_attribute(&format!("n{number}"), None, number).unwrap();
                child.remove(&format!("n{number}")).unwrap();
            }
        });
        let object = &object;
        scope.spawn(move || {
            for _ in 0..300 {
                let child = object.find("child").unwrap();
                assert!((2..=3).contains(&child.attributes().unwrap().len()));
                assert!(child.find("weight").is_ok());
            }
        });
        let module = &module; // threads may share a handle
        scope.spawn(move || {
            for _ in 0..300 {
                assert!(module.submodule("child").unwrap().members().unwrap().len() >= 2);
            }
        });
    });
}

#[test]
fn what_a_change_drops_may_use_modules_and_panic() {
    use std::panic::{catch_unwind, AssertUnwindSafe};
    struct Owner(Vec<f32>, Module);
    impl AsRef<[f32]> for Owner {
        fn as_ref(&self) -> &[f32] {
            &self.0
        }
    }
    impl Drop for Owner {
        fn drop(&mut self) {
            self.1.set("weight", &tensor(&[3.0])).unwrap();
            assert_eq!(self.1.members().unwrap().len(), 3);
            panic!("the owner is dropped");
        }
    }
    let storage = tenon::Storage::wrap::<f32, _>(Owner(vec![1.0], scale(&[1.0]))).unwrap();
    let wrapped = tenon::Tensor::new(&storage, &TensorSpec::of::<f32>(&[1])).unwrap();
    let mut module = Module::new("Net").unwrap();
    module.add_buffer("wrapped", &wrapped).unwrap();
    drop((storage, wrapped));
    let panic = catch_unwind(AssertUnwindSafe(|| module.set("wrapped", &tensor(&[2.0])).unwrap()))
        .unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the owner is dropped"));
    assert_eq!(module.value("wrapped").unwrap().to_tensor().unwrap().numel(), 1);
}

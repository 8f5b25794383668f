//! Prints the contents of a TorchScript file. usage: inspect_module FILE

use std::env;
use std::error::Error;

use tenon::{import_module, ImportOptions, MemberKind, Module, ValueKind};

fn print_members(module: &Module, depth: usize) -> tenon::Result<()> {
    for member in module.members()? {
        print!("{}{} {}", "  ".repeat(depth), member.kind.name(), member.name);
        if !member.type_text.is_empty() {
            print!(": {}", member.type_text);
        }
        if member.kind == MemberKind::Constant {
            print!(" = {}", member.source);
        }
        match member.value {
            Some(value) if value.kind() == ValueKind::Tensor => {
                let spec = value.tensor_spec()?;
                println!(" {} {:?}", spec.scalar_type, spec.sizes);
            }
            _ => println!(),
        }
        if let Some(child) = member.module {
            print_members(&child, depth + 1)?;
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = env::args().nth(1).ok_or("usage: inspect_module FILE")?;
    let module = import_module(file, &ImportOptions::new())?;
    let report = module.import_report()?;
    println!("{}, version {}, {} records", module.class_name()?, report.version, report.records);
    print_members(&module, 1)?;
    for (name, data) in module.extra_files()? {
        println!("extra file {name}, {} bytes", data.len());
    }
    for warning in module.warnings()? {
        println!("warning: {warning}");
    }
    Ok(())
}

mod cart;
use anyhow::Context;
use std::collections::HashMap;

#[inline(never)]
fn run_job(job: fn(&str) -> anyhow::Result<()>, value: &str) -> anyhow::Result<()> {
    job(value).context("job failed")
}

fn bug(name: &str, value: &str) -> anyhow::Result<()> {
    let n: usize = value.parse().unwrap_or(0);
    match name {
        "price" => {
            cart::total(&HashMap::new(), &[value]);
        }
        "at" => {
            cart::at(&[1], n);
        }
        "quantity" => {
            cart::quantity(value);
        }
        "discount" => {
            cart::discount(value);
        }
        "deeper" => {
            cart::deeper(n);
        }
        "thread" => {
            let value = value.to_string();
            std::thread::spawn(move || cart::quantity(&value)).join().ok();
        }
        "job_charge" => run_job(cart::charge, value)?,
        "job_send" => run_job(cart::send, value)?,
        _ => {}
    }
    Ok(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    std::panic::set_hook(Box::new(|info| {
        let text = info.payload_as_str().unwrap_or("").replace('\n', "\\n");
        println!("---- panic | {text}\n{}", std::backtrace::Backtrace::force_capture());
    }));
    if let Err(error) = bug(&arguments[1], &arguments[2]) {
        println!("---- anyhow::Error | {error}\n{error:?}");
    }
}

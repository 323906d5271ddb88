//! A planning step of HaM-World (forward only, the gradient of the energy written out) in candle, on the processor.
//! `candle-plan INPUTS.safetensors`, with the inputs of `export.py plan`; speaks the lines of `worker.py`.
use candle_core::{DType, Device, Result, Tensor, D};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::time::Instant;

const NG: usize = 128;
const ITERS: usize = 6;
const HOR: usize = 6;

struct M { p: HashMap<String, Tensor>, bins: Tensor }

impl M {
    fn g(&self, n: &str) -> &Tensor { &self.p[n] }
    fn lin(&self, n: &str, x: &Tensor) -> Result<Tensor> {
        x.matmul(self.g(&format!("{n}.weight#t")))?.broadcast_add(self.g(&format!("{n}.bias")))
    }
    fn mlp(&self, n: &str, k: usize, x: &Tensor) -> Result<Tensor> {
        let mut x = x.clone();
        for i in 0..k - 1 { x = self.lin(&format!("{n}.{i}"), &x)?.silu()?; }
        self.lin(&format!("{n}.{}", k - 1), &x)
    }
    fn mem_step(&self, z: &Tensor, a: &Tensor, st: &[Tensor]) -> Result<(Tensor, Vec<Tensor>)> {
        let mut u = self.lin("mem.in", &Tensor::cat(&[z, a], 1)?)?;
        let mut out = vec![];
        for l in 0..2 {
            let q = |s: &str| format!("mem.{l}.{s}");
            let ms = (u.sqr()?.mean_keepdim(1)? + 1e-5)?.sqrt()?;
            let xn = u.broadcast_div(&ms)?.broadcast_mul(self.g(&q("norm")))?;
            let xg = xn.matmul(self.g(&q("in_proj#t")))?;
            let x = xg.narrow(1, 0, 128)?.contiguous()?;
            let g = xg.narrow(1, 128, 128)?.contiguous()?;
            let dt = (self.lin(&q("dt"), &x)?.exp()? + 1.0)?.log()?;
            let b = x.matmul(self.g(&q("B#t")))?;
            let c = x.matmul(self.g(&q("C#t")))?;
            let da = dt.unsqueeze(2)?.broadcast_mul(&self.g(&q("A")).unsqueeze(0)?)?.exp()?;
            let dbx = (&dt * &x)?.unsqueeze(2)?.broadcast_mul(&b.unsqueeze(1)?)?;
            let s = (da.broadcast_mul(&st[l])? + dbx)?;
            let y = s.matmul(&c.unsqueeze(2)?)?.squeeze(2)?;
            let y = (y + x.broadcast_mul(self.g(&q("D")))?)?;
            u = ((y * g.silu()?)?.matmul(self.g(&q("out_proj#t")))? + u)?;
            out.push(s);
        }
        Ok((u, out))
    }
    fn dsilu(u: &Tensor) -> Result<Tensor> {
        let s = ((u.neg()?.exp()? + 1.0)?).recip()?;
        let t = ((u * (1.0 - &s)?)? + 1.0)?;
        s * t
    }
    fn transition(&self, z: &Tensor, a: &Tensor, h: &Tensor) -> Result<Tensor> {
        let n = z.dim(0)?;
        let x = Tensor::cat(&[z, a, h], 1)?;
        let net = self.mlp("core", 2, &x)?;
        let g = self.mlp("G", 2, &x)?.reshape((n, 8, 6))?;
        let dc = self.mlp("fc", 2, &x)?;
        let qp = z.narrow(1, 0, 16)?.contiguous()?;
        let u1 = self.lin("H.0", &qp)?;
        let u2 = self.lin("H.1", &u1.silu()?)?;
        let g2 = Self::dsilu(&u2)?.broadcast_mul(self.g("H.2.weight"))?.matmul(self.g("H.1.weight"))?;
        let gr = (Self::dsilu(&u1)? * g2)?.matmul(self.g("H.0.weight"))?;
        let dq = ((net.narrow(1, 0, 8)? * 0.7)? + (gr.narrow(1, 8, 8)? * 0.3)?)?;
        let ga = g.broadcast_mul(&a.unsqueeze(1)?)?.sum(2)?;
        let dp = (((net.narrow(1, 8, 8)? * 0.7)? - (gr.narrow(1, 0, 8)? * 0.3)?)? + ga)?;
        z + Tensor::cat(&[&dq, &dp, &dc], 1)?
    }
    fn softmax(x: &Tensor) -> Result<Tensor> {
        let e = x.broadcast_sub(&x.max_keepdim(D::Minus1)?)?.exp()?;
        let s = e.sum_keepdim(D::Minus1)?;
        e.broadcast_div(&s)
    }
    fn decode(&self, lg: &Tensor) -> Result<Tensor> {
        let m = Self::softmax(lg)?.broadcast_mul(&self.bins)?.sum(D::Minus1)?;
        let e = (m.abs()?.exp()? - 1.0)?;
        m.sign()? * e
    }
    fn plan(&self) -> Result<Vec<f32>> {
        let z0 = self.mlp("enc", 3, &self.g("plan_in.obs").unsqueeze(0)?)?;
        let st = self.g("plan_in.state");
        let st = vec![st.narrow(0, 0, 1)?, st.narrow(0, 1, 1)?];
        let (_h, st0) = self.mem_step(&z0, &self.g("plan_in.a_prev").unsqueeze(0)?, &st)?;
        let mut mu = self.g("plan_in.mu0").clone();
        let mut std = (mu.zeros_like()? + 0.4)?;
        for it in 0..ITERS {
            let noise = self.g("plan_in.noise").narrow(0, it, 1)?.squeeze(0)?;
            let n = noise.dim(0)?;
            let ga = noise.narrow(0, 0, NG)?.broadcast_mul(&std)?.broadcast_add(&mu)?.clamp(-1f32, 1f32)?;
            let mut z = z0.broadcast_as((n, 48))?.contiguous()?;
            let mut st = st0.clone();
            let (mut zs, mut acts) = (vec![], vec![]);
            for k in 0..HOR {
                let pn = noise.narrow(0, NG, n - NG)?.narrow(1, k, 1)?.squeeze(1)?;
                let pi = self.mlp("pi", 2, &z.narrow(0, NG, n - NG)?.contiguous()?)?.tanh()?;
                let ap = (pi + (pn * 0.3)?)?.clamp(-1f32, 1f32)?;
                let a = Tensor::cat(&[&ga.narrow(1, k, 1)?.squeeze(1)?, &ap], 0)?;
                let (h, s) = self.mem_step(&z, &a, &st)?;
                st = s;
                z = self.transition(&z, &a, &h)?;
                zs.push(z.clone());
                acts.push(a);
            }
            let r = self.decode(&self.mlp("reward", 2, &Tensor::cat(&zs, 0)?)?)?.reshape((HOR, n))?;
            let disc: Vec<f32> = (0..HOR).map(|k| 0.99f32.powi(k as i32)).collect();
            let disc = Tensor::from_vec(disc, (HOR, 1), &Device::Cpu)?;
            let v = self.decode(&self.mlp("value", 2, &z)?)?;
            let g = (r.broadcast_mul(&disc)?.sum(0)? + (v * 0.99f64.powi(6))?)?;
            let a = Tensor::stack(&acts, 1)?;
            let gv: Vec<f32> = g.to_vec1()?;
            let mut idx: Vec<u32> = (0..n as u32).collect();
            idx.sort_by(|&i, &j| gv[j as usize].total_cmp(&gv[i as usize]));
            let idx = Tensor::from_vec(idx[..16].to_vec(), 16, &Device::Cpu)?;
            let ge = g.index_select(&idx, 0)?;
            let w = Self::softmax(&(ge / 0.5)?)?.reshape((16, 1, 1))?;
            let e = a.index_select(&idx, 0)?;
            mu = e.broadcast_mul(&w)?.sum(0)?;
            let d = e.broadcast_sub(&mu)?.sqr()?.broadcast_mul(&w)?.sum(0)?;
            std = (d + 1e-6)?.sqrt()?.maximum(&(mu.zeros_like()? + 0.05)?)?;
        }
        mu.narrow(0, 0, 1)?.squeeze(0)?.to_vec1()
    }
}

fn main() -> Result<()> {
    let t0 = Instant::now();
    let f = std::env::args().nth(1).expect("inputs.safetensors");
    let mut p = candle_core::safetensors::load(f, &Device::Cpu)?;
    let names: Vec<String> = p.keys().cloned().collect();
    for n in names {
        let t = p[&n].clone();
        if t.rank() == 2 && !n.starts_with("plan_in") {
            p.insert(format!("{n}#t"), t.t()?.contiguous()?);
        }
        if n.ends_with("A_log") { p.insert(n.replace("A_log", "A"), t.exp()?.neg()?); }
    }
    let bins: Vec<f32> = (0..101).map(|i| -20.0 + 0.4 * i as f32).collect();
    let m = M { p, bins: Tensor::from_vec(bins, 101, &Device::Cpu)?.to_dtype(DType::F32)? };
    let imp = t0.elapsed().as_secs_f64();
    let t = Instant::now();
    let v = m.plan()?;
    let first = t.elapsed().as_secs_f64();
    let t = Instant::now();
    m.plan()?;
    println!("{}", serde_json::json!({"import_s": imp, "first_call_s": first, "second_call_s": t.elapsed().as_secs_f64(), "value": v}));
    std::io::stdout().flush().unwrap();
    for line in std::io::stdin().lock().lines() {
        let n: usize = line.unwrap().trim().parse().unwrap();
        let mut ts = vec![];
        for _ in 0..n { let t = Instant::now(); m.plan()?; ts.push(t.elapsed().as_secs_f64() * 1e3); }
        println!("{}", serde_json::to_string(&ts).unwrap());
        std::io::stdout().flush().unwrap();
    }
    Ok(())
}

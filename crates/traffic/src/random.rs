//! Random numbers that are the same in every version: a seed in a report repeats its load for good.

/// xoshiro256++ (Blackman and Vigna, 2019), seeded by SplitMix64.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream of `seed`. `purpose` keeps streams of one seed apart, so that drawing more lengths moves no arrival.
    pub fn new(seed: u64, purpose: &str) -> Self {
        let mut mixed = purpose.bytes().fold(seed, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut next = || {
            mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = mixed;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Self {
            state: [next(), next(), next(), next()],
        }
    }

    pub fn next_bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// Uniform in (0, 1): never 0, so its logarithm is finite.
    pub fn next_uniform(&mut self) -> f64 {
        ((self.next_bits() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Uniform among `0..below`; 0 where `below` is 0. By multiplication: a bias below 2⁻³² for `below` up to 2³².
    pub fn next_below(&mut self, below: u64) -> u64 {
        ((u128::from(self.next_bits()) * u128::from(below)) >> 64) as u64
    }

    /// Normal with mean 0 and standard deviation 1 (Box and Muller).
    pub fn next_normal(&mut self) -> f64 {
        let radius = (-2.0 * self.next_uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.next_uniform()).cos()
    }

    /// A draw from the exponential distribution with mean 1.
    pub fn next_exponential(&mut self) -> f64 {
        -self.next_uniform().ln()
    }

    /// Gamma with this shape and scale 1 (Marsaglia and Tsang, 2000; shapes below 1 by their boost).
    pub fn next_gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let boost = self.next_uniform().powf(1.0 / shape);
            return self.next_gamma(shape + 1.0) * boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.next_normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && self.next_uniform().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // The reference implementation's first output from the state 1, 2, 3, 4: rotl(1 + 4, 23) + 1.
        let mut random = Random {
            state: [1, 2, 3, 4],
        };
        assert_eq!(random.next_bits(), 41_943_041);
        assert_eq!(random.next_bits(), 58_720_359);
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut random = Random::new(7, "test");
        let n = 200_000;
        let mut moments = |draw: &mut dyn FnMut(&mut Random) -> f64| {
            let values: Vec<f64> = (0..n).map(|_| draw(&mut random)).collect();
            let mean = values.iter().sum::<f64>() / f64::from(n);
            let var = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / f64::from(n);
            (mean, var)
        };
        for (shape, tolerance) in [(0.3, 0.02), (1.0, 0.02), (4.0, 0.05)] {
            let (mean, var) = moments(&mut |r| r.next_gamma(shape));
            assert!((mean - shape).abs() < tolerance, "{shape}: mean {mean}");
            assert!((var - shape).abs() < 3.0 * tolerance, "{shape}: var {var}");
        }
        let (mean, var) = moments(&mut Random::next_exponential);
        assert!((mean - 1.0).abs() < 0.02 && (var - 1.0).abs() < 0.05);
        let (mean, var) = moments(&mut Random::next_normal);
        assert!(mean.abs() < 0.02 && (var - 1.0).abs() < 0.02);
    }

    #[test]
    fn purposes_are_apart_and_seeds_repeat() {
        let first = |seed, purpose| Random::new(seed, purpose).next_bits();
        assert_eq!(first(1, "arrivals"), first(1, "arrivals"));
        assert_ne!(first(1, "arrivals"), first(1, "lengths"));
        assert_ne!(first(1, "arrivals"), first(2, "arrivals"));
    }
}

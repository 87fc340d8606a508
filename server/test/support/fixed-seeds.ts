import fc from 'fast-check';
import { SEED } from './runs.ts';

/**
 * Every property of fast-check draws with the run's seed, unless a test has one of its own. A failure prints
 * it.
 */
fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: SEED });

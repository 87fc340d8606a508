import { explainEgress } from '@millrace/server';
import { readConfiguration } from './configuration.ts';
import { egressReport } from './egress-report.ts';
import { paintFor } from './paint.ts';
import { fileOf } from './start.ts';
import type { ExitCode, Surroundings } from './surroundings.ts';

export interface EgressOptions {
  /** The argument of the verb: a URL or host. */
  readonly target: string;
  readonly config?: string;
  readonly json?: boolean;
}

/**
 * `millrace egress explain URL`: shows the rule that allows or refuses a target, and the address that would be used. Needs
 * no server: it reads the configuration that `start` would read, and this machine resolves the names.
 * Ends with 1 when no request would be sent.
 */
export async function explain(options: EgressOptions, place: Surroundings): Promise<ExitCode> {
  const file = fileOf(options.config, place.env);
  const wanted = { flags: {}, defaultHost: '127.0.0.1', ...(file ? { file } : {}) };
  const settings = readConfiguration(wanted, place);
  if (!settings) return 2;
  const explained = await explainEgress(options.target, settings.config.egress);
  if (explained.verdict === 'invalid') {
    place.err.write(`millrace: ${JSON.stringify(options.target)} is ${explained.message}.\n`);
    return 2;
  }
  const paint = paintFor(place.out, place.env);
  place.out.write(options.json ? `${JSON.stringify(explained)}\n` : egressReport(explained, paint));
  return explained.verdict === 'allowed' ? 0 : 1;
}

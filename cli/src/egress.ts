import { type EgressExplanation, explainEgress } from '@millrace/server';
import { readConfiguration } from './configuration.ts';
import { type Paint, paintFor } from './paint.ts';
import type { ExitCode, RunContext } from './run-context.ts';
import { fileOf } from './start.ts';
import { table } from './table.ts';

export interface EgressOptions {
  /** The argument of the verb: a URL or host. */
  readonly target: string;
  readonly config?: string;
  readonly json?: boolean;
}

/**
 * `millrace egress explain URL`: shows the rule that allows or refuses a target, and the address that would
 * be used. Needs no server: it reads the configuration that `start` would read, and this machine resolves the
 * names. Ends with 1 when no request would be sent.
 */
export async function explain(options: EgressOptions, context: RunContext): Promise<ExitCode> {
  const file = fileOf(options.config, context.env);
  const wanted = { flags: {}, defaultHost: '127.0.0.1', file };
  const settings = readConfiguration(wanted, context);
  if (!settings) return 2;
  const explained = await explainEgress(options.target, settings.config.egress);
  if (explained.verdict === 'invalid') {
    context.err.write(`millrace: ${JSON.stringify(options.target)} is ${explained.message}.\n`);
    return 2;
  }
  const paint = paintFor(context.out, context.env);
  context.out.write(options.json ? `${JSON.stringify(explained)}\n` : egressReport(explained, paint));
  return explained.verdict === 'allowed' ? 0 : 1;
}

/**
 * The output of `millrace egress explain`: each address with its rule, the address that is used, and the
 * verdict last.
 */
export function egressReport(explained: EgressExplanation, paint: Paint): string {
  const { url, host, port, addresses, used, proxy, verdict, message } = explained;
  const lines = [`${paint.bold(url)}  ${host}, port ${port}`];
  if (addresses.length > 0) {
    const rows = addresses.map(({ address, allowed, rule }) => [
      { text: address },
      allowed ? { text: 'allowed', draw: paint.green } : { text: 'refused', draw: paint.red },
      { text: rule },
      { text: address === used ? 'tried first' : '', draw: paint.dim },
    ]);
    const headings = ['address', 'ruling', 'rule', ''].map((title) => ({ title, align: 'left' as const }));
    lines.push('', ...table(headings, rows, paint));
  }
  if (proxy !== undefined) lines.push('', `through the proxy ${proxy}, which is asked for the address`);
  const draw = { allowed: paint.green, unresolved: paint.yellow, refused: paint.red, invalid: paint.red };
  lines.push('', `${draw[verdict](verdict)}: ${message}`);
  return `${lines.join('\n')}\n`;
}

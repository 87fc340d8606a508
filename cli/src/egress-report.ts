import type { EgressExplanation } from '@millrace/server';
import type { Paint } from './paint.ts';
import { table } from './table.ts';

/** The output of `millrace egress explain`: each address with its rule, the address that is used, and the verdict last. */
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

import { printable } from '../column.ts';
import type { Paint } from '../paint.ts';
import type { Finding } from './finding.ts';

/**
 * ```
 * ok    node         v24.21.0
 * fail  disk sync    nothing can be written (ENOSPC)
 *                    → free some space: until then every call is turned away with 503
 *
 * 1 failure, 0 warnings.
 * ```
 */
export function doctorReport(findings: readonly Finding[], paint: Paint): string {
  const width = Math.max(...findings.map(({ check }) => printable(check).length));
  const draw = { ok: paint.green, warn: paint.yellow, fail: paint.red };
  const lines = findings.flatMap(({ check, verdict, found, advice }) => {
    const name = printable(check).padEnd(width);
    const [first = '', ...more] = found.split('\n').map(printable);
    const below = [...more, ...(advice === undefined ? [] : [`→ ${printable(advice)}`])];
    return [
      `${draw[verdict](verdict)}${' '.repeat(6 - verdict.length)}${name}  ${first}`,
      ...below.map((line) => `${' '.repeat(width + 8)}${line}`),
    ];
  });
  const { failures, warnings } = sums(findings);
  const end = `${failures === 1 ? '1 failure' : `${failures} failures`}, ${warnings === 1 ? '1 warning' : `${warnings} warnings`}.`;
  return `${[...lines, '', failures === 0 && warnings === 0 ? 'All is well.' : end].join('\n')}\n`;
}

export function sums(findings: readonly Finding[]): { failures: number; warnings: number } {
  const of = (wanted: Finding['verdict']) => findings.filter(({ verdict }) => verdict === wanted).length;
  return { failures: of('fail'), warnings: of('warn') };
}

import type { ApiFault } from '../api/client.ts';

/**
 * The server's message about one field or anything below it. `path` is that of the record, such as
 * `settings.rateLimit`.
 */
export function faultOf(faults: readonly ApiFault[], path: string): string | undefined {
  const full = `body.${path}`;
  const own = faults.filter((fault) => fault.path === full || isBelow(fault.path, full));
  return own.length === 0 ? undefined : own.map(({ message }) => message).join('; ');
}

/** Faults that no field of the form shows. */
export function otherFaults(faults: readonly ApiFault[], shown: readonly string[]): ApiFault[] {
  return faults.filter(
    ({ path }) => !shown.some((one) => path === `body.${one}` || isBelow(path, `body.${one}`)),
  );
}

function isBelow(path: string, parent: string): boolean {
  return path.startsWith(`${parent}.`) || path.startsWith(`${parent}[`);
}

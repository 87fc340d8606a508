import type { CallType } from '../model/call.ts';
import type { Happening } from '../ports/observer.ts';

/** Which happenings somebody wants to see: those that pass every part that is given. */
export interface TailFilter {
  /** Name of the source. */
  readonly source?: string | undefined;
  /** Name of the destination; only deliveries have one. */
  readonly destination?: string | undefined;
  /** Of the event; a call that was discarded has none. */
  readonly type?: CallType | undefined;
  /** Only what somebody on call must not miss: a try that failed, a call that was not taken. */
  readonly failed?: boolean | undefined;
}

export function wants(filter: TailFilter, happening: Happening): boolean {
  const { source, destination, type, failed = false } = filter;
  if (source !== undefined && happening.source !== source) return false;
  if (destination !== undefined && (happening.kind !== 'settled' || happening.destination !== destination))
    return false;
  if (type !== undefined && (happening.kind === 'discarded' || happening.event.type !== type)) return false;
  return !failed || isFailure(happening);
}

function isFailure(happening: Happening): boolean {
  if (happening.kind === 'settled') return happening.decision.kind !== 'delivered';
  return happening.kind === 'discarded';
}

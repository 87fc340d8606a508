import { answerText } from './answer-text.ts';

/** The answer of `/readyz`, or the reason why there is none. */
export type Readiness =
  | { readonly status: number; readonly reasons: readonly string[] }
  /** An error code such as `ECONNREFUSED`. */
  | { readonly error: string };

/** Milliseconds to wait. `/readyz` reads only memory, and answers as fast as the network. */
const PATIENCE_MS = 5000;

/** Asks whether a server accepts calls. Needs no token. Never rejects. */
export async function readinessOf(url: URL): Promise<Readiness> {
  try {
    const target = new URL(`${url.pathname.replace(/\/+$/, '')}/readyz`, url);
    const answer = await fetch(target, { redirect: 'manual', signal: AbortSignal.timeout(PATIENCE_MS) });
    const said = await saidIn(answer);
    const { reasons } = Object(said) as { reasons?: unknown };
    return { status: answer.status, reasons: Array.isArray(reasons) ? reasons.map(String) : [] };
  } catch (error) {
    const cause = error instanceof Error ? error.cause : undefined;
    if (cause instanceof Error && 'code' in cause) return { error: String(cause.code) };
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

/** Undefined when it is no JSON. */
async function saidIn(answer: Response): Promise<unknown> {
  try {
    return JSON.parse(await answerText(answer));
  } catch {
    return undefined;
  }
}

/** Reasons why a server turns calls away; empty when it takes them, and when nobody answered. */
export function turnedAwayFor(ready: Readiness): readonly string[] {
  // A server that is shutting down is not reported as one that turns calls away.
  if ('error' in ready || ready.status === 200) return [];
  return [ready.reasons.join('; ') || 'it says no more'];
}

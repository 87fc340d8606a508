import { answered } from './answered.ts';
import { latency, printable } from './column.ts';
import type { ControlFlags } from './control-api.ts';
import { type Paint, paintFor } from './paint.ts';
import type { ExitCode, RunContext } from './run-context.ts';

export interface TestOptions extends ControlFlags {
  /** The argument of the verb: the name of a destination. */
  readonly destination: string;
  readonly type?: string;
  readonly json?: boolean;
}

/** A request and its answer, from `POST destinations/{name}/test`. */
interface Trial {
  readonly request: {
    readonly url: string;
    /** A secret header has the form `{set, hint}`. */
    readonly headers: Readonly<Record<string, string | { readonly hint?: string }>>;
    readonly body: string;
  };
  readonly latencyMs: number;
  readonly outcome: 'accepted' | 'retryable' | 'refused' | 'dropped';
  readonly reason: string;
  readonly status?: number;
  readonly answer?: string;
}

/**
 * `millrace test DESTINATION`: sends an example event through the usual delivery path without storing a
 * delivery. Shows the request to each endpoint and its answer. Ends with 1 when no endpoint accepted it.
 * spec/contract.md, "Verbs that change".
 */
export async function testDestination(options: TestOptions, context: RunContext): Promise<ExitCode> {
  const { destination, type } = options;
  const path = `destinations/${encodeURIComponent(destination)}/test`;
  const body = type === undefined ? {} : { type };
  const reply = await answered(options, context, { path, method: 'POST', body });
  if (typeof reply === 'number') return reply;
  const { data } = Object(reply.value) as { readonly data?: readonly Trial[] };
  if (!Array.isArray(data)) {
    context.err.write('millrace: the server speaks of a test in another way: is it of this version?\n');
    return 1;
  }
  const trials: readonly Trial[] = data;
  const paint = paintFor(context.out, context.env);
  context.out.write(
    options.json ? `${reply.text}\n` : `${trials.map((trial) => trialText(trial, paint)).join('\n\n')}\n`,
  );
  if (trials.some(({ outcome }) => outcome === 'accepted')) return 0;
  context.err.write(`millrace: no endpoint of ${printable(destination)} accepted the request.\n`);
  return 1;
}

function trialText({ request, latencyMs, outcome, reason, status, answer }: Trial, paint: Paint): string {
  const headers = Object.entries(request.headers).map(
    ([name, value]) => `${name}: ${typeof value === 'string' ? value : `…${value.hint ?? ''}`}`,
  );
  const draw = outcome === 'accepted' ? paint.green : paint.red;
  const said = answer === undefined || answer === '' ? [] : [`  ${printable(answer)}`];
  const how = status === undefined ? reason : `${status}`;
  return [
    paint.bold(`POST ${printable(request.url)}`),
    ...headers.map(printable),
    '',
    printable(request.body),
    '',
    `${draw(`${outcome}: ${printable(how)}`)}  ${latency(latencyMs)}`,
    ...said,
  ].join('\n');
}

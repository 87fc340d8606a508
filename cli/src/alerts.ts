import { answered } from './answered.ts';
import { latency, printable } from './column.ts';
import type { ControlFlags } from './control-api.ts';
import { paintFor } from './paint.ts';
import type { ExitCode, RunContext } from './run-context.ts';
import { table } from './table.ts';

export interface AlertOptions extends ControlFlags {
  readonly json?: boolean;
}

export interface NamedAlertOptions extends AlertOptions {
  /** The argument of the verb. */
  readonly name: string;
}

/** How one message fared, in answers of the control API. */
interface ShownSending {
  readonly outcome: 'taken' | 'failed';
  readonly receiver: string;
  readonly status?: number;
  readonly answer: string;
  readonly latencyMs: number;
}

/** An entry of the answer of `GET /api/v1/alerts`. */
interface ShownAlert {
  readonly name: string;
  readonly type: 'webhook' | 'email';
  readonly enabled: boolean;
  readonly settings: { readonly url?: string; readonly to?: readonly string[] };
  readonly open: readonly unknown[];
  readonly isWaiting: boolean;
  readonly last?: ShownSending;
}

/** `millrace alert list`. */
export async function listAlerts(options: AlertOptions, context: RunContext): Promise<ExitCode> {
  const reply = await answered(options, context, { method: 'GET', path: 'alerts', query: { limit: '500' } });
  if (typeof reply === 'number') return reply;
  if (options.json) {
    context.out.write(`${reply.text}\n`);
    return 0;
  }
  const { data } = reply.value as { readonly data: readonly ShownAlert[] };
  if (data.length === 0) {
    context.out.write('No alerts yet; millrace apply -f FILE makes those of a file.\n');
    return 0;
  }
  const headings = ['name', 'type', 'to', 'state'].map((title) => ({
    title,
    align: 'left' as const,
    least: 8,
  }));
  const rows = data.map((alert) =>
    [alert.name, alert.type, receiverOf(alert), stateOf(alert)].map((text) => ({ text: printable(text) })),
  );
  context.out.write(`${table(headings, rows, paintFor(context.out, context.env)).join('\n')}\n`);
  return 0;
}

function receiverOf({ settings: { url, to = [] } }: ShownAlert): string {
  return url ?? to.join(', ');
}

function stateOf({ enabled, open, isWaiting, last }: ShownAlert): string {
  const parts = [
    enabled ? undefined : 'disabled',
    open.length === 0 ? undefined : `${open.length} open`,
    isWaiting ? 'a message waits' : undefined,
    last === undefined ? undefined : last.outcome === 'taken' ? 'sent' : `not sent: ${last.answer}`,
  ];
  return parts.filter((part) => part !== undefined).join(', ') || 'quiet';
}

/** `millrace alert test NAME`: ends with 1 when the receiver did not take the message. */
export async function testAlert(options: NamedAlertOptions, context: RunContext): Promise<ExitCode> {
  const path = `alerts/${encodeURIComponent(options.name)}/test`;
  const reply = await answered(options, context, { method: 'POST', path, body: {} });
  if (typeof reply === 'number') return reply;
  const { outcome, receiver, status, answer, latencyMs } = reply.value as ShownSending;
  const paint = paintFor(context.out, context.env);
  const said = [status, answer === '' ? undefined : answer].filter((part) => part !== undefined).join(' ');
  const draw = outcome === 'taken' ? paint.green : paint.red;
  context.out.write(
    options.json
      ? `${reply.text}\n`
      : `${printable(receiver)}\n${draw(`${outcome}: ${printable(said)}`)}  ${latency(latencyMs)}\n`,
  );
  return outcome === 'taken' ? 0 : 1;
}

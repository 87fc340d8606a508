import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import { send, track } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import {
  adminTokenOf,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  startServer,
} from '../support/program.ts';
import { type Arrival, startReceiver, type TestReceiver } from '../support/receiver.ts';
import { type SmtpServer, startSmtpServer } from '../support/smtp-server.ts';
import { until } from '../support/until.ts';

const KEY = 'bWlsbHJhY2UtYWxlcnRzLW9mLXRoZS10ZXN0cy0xMjM0';

interface Message {
  readonly type: string;
  readonly data: {
    readonly alert: string;
    readonly summary: string;
    readonly changes: readonly { change: string; condition: string; destination?: string; hint?: string }[];
  };
}

const messageOf = ({ body }: Arrival) => JSON.parse(body.toString()) as Message;

/** As the Standard Webhooks specification says. */
function expectedSignature({ headers, body }: Arrival): string {
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  return `v1,${createHmac('sha256', Buffer.from(KEY, 'base64')).update(signed).digest('base64')}`;
}

describe('alerts of the real program', () => {
  let place: Place;
  let program: Program;
  /** Of the alerts of the file. */
  let mail: SmtpServer;
  let oncall: TestReceiver;
  let down: TestReceiver;
  const receivers: { stop(): Promise<void> }[] = [];

  beforeAll(async () => {
    mail = await startSmtpServer();
    receivers.push(mail);
    oncall = await receiver();
    down = await receiver({
      answer: (response, { body }) =>
        void response.writeHead(body.includes('dies') ? 410 : 503, { 'retry-after': '1' }).end(),
    });
    place = makePlace(`${oneDestination([`${down.url}/in?token=s3cret`])}
alerts:
  - name: oncall
    type: webhook
    after: 1s
    settings: { url: "${oncall.url}/alerts?key=s3cret", signingSecrets: [whsec_${KEY}] }
  - name: ops
    type: email
    after: 1s
    on: [destination_failing]
    settings: { server: "smtp://127.0.0.1:${mail.port}", from: millrace@example.com, to: [ops@example.com] }
`);
    program = await startServer(place);
  });

  afterAll(async () => {
    await program.kill();
    for (const receiver of receivers) await receiver.stop();
    place.remove();
  });

  async function receiver(...options: Parameters<typeof startReceiver>): Promise<TestReceiver> {
    const started = await startReceiver(...options);
    receivers.push(started);
    return started;
  }

  const control = new ControlApi(() => ({ url: program.url, token: adminTokenOf(place) }));
  const api = async (method: string, path: string, body?: object) =>
    (await control.ask<Record<string, unknown>>(method, path, body)).answer;

  it('tell a signed webhook and a mailbox of a failing destination and of dead letters, once', async () => {
    await api('POST', 'alerts/oncall/test', {});
    await send(program.url, '/v1/track', track('waits'));
    await mail.count(1);
    expect(mail.mails[0]!.data).toContain('Subject: =?UTF-8?Q?Millrace=3A_crm_is_failing');
    expect(mail.mails[0]!.data).not.toContain('s3cret');
    await oncall.count(2);
    const [test, failing] = oncall.arrivals;
    expect(messageOf(test!).data.summary).toContain('this is a test');
    expect(failing!.headers['webhook-signature']).toBe(expectedSignature(failing!));
    expect(messageOf(failing!)).toMatchObject({
      type: 'millrace.alert',
      data: {
        alert: 'oncall',
        changes: [{ change: 'started', condition: 'destination_failing', destination: 'crm' }],
      },
    });
    expect(failing!.body.toString()).not.toContain('s3cret');

    // What was told survives a kill, and the next message has only what is new.
    await program.kill();
    program = await startServer(place);
    await send(program.url, '/v1/track', track('dies'));
    // A message that was under way when the program died may come again, and is recognised by its id.
    const byId = () => [...new Map(oncall.arrivals.map((one) => [one.headers['webhook-id'], one])).values()];
    await oncall.until(() => byId().length === 3);
    expect(messageOf(byId()[2]!).data.changes).toMatchObject([
      { change: 'happened', condition: 'deliveries_dying', destination: 'crm' },
    ]);
    const numbers = mail.mails.map(({ data }) => /^message-id: (.+)$/im.exec(data)?.[1]);
    expect(new Set(numbers).size).toBe(1);
    const { data } = (await api('GET', 'alerts')) as { data: readonly Record<string, unknown>[] };
    expect(data).toMatchObject([
      {
        name: 'oncall',
        settings: { url: `${oncall.url}/alerts?key=…`, signingSecrets: [{ set: true, hint: KEY.slice(-4) }] },
        open: [{ condition: 'destination_failing', destination: 'crm' }],
        last: { outcome: 'taken', status: 200 },
      },
      { name: 'ops', type: 'email', open: [{ destination: 'crm' }] },
    ]);
    const flags = ['--url', program.url, '--data', place.data];
    // Another change may wait a moment, to be told with others.
    await until('the list shows one that is open', async () => {
      const list = await runVerb(['alert', 'list', ...flags]);
      expect(list.out).toMatch(/oncall +webhook +http:.*key=… +1 open, sent/);
    });
    const exported = await runVerb(['export', ...flags]);
    expect(exported.out).toContain('ALERT_ONCALL_SIGNING_SECRET_1');
    expect(exported.out).toContain('ALERT_ONCALL_QUERY_KEY');
    expect(exported.out).not.toContain('s3cret');
  });

  it('show what a receiver answers to a test, and keep to the egress rules', async () => {
    const refusing = await startSmtpServer({ verdict: '554 not today' });
    receivers.push(refusing);
    const busy = await receiver({ answer: (response) => void response.writeHead(503).end('busy') });
    const refused = { name: 'a', type: 'webhook', settings: { url: 'http://169.254.169.254/' } };
    expect(await api('POST', 'alerts', refused)).toMatchObject({
      code: 'invalid_parameters',
      errors: [{ path: 'body.settings.url', message: expect.stringContaining('link-local') }],
    });
    const inside = { server: 'smtp://10.1.2.3', from: 'a@b.example', to: ['c@d.example'] };
    expect(await api('POST', 'alerts', { name: 'a', type: 'email', settings: inside })).toMatchObject({
      errors: [{ path: 'body.settings.server', message: expect.stringContaining('egress.allow') }],
    });
    const login = { user: 'millrace', password: 'p4ssword-of-the-server' };
    const mailbox = { ...inside, server: `smtp://127.0.0.1:${refusing.port}` };
    await api('POST', 'alerts', { name: 'mail', type: 'email', settings: { ...mailbox, ...login } });
    await api('POST', 'alerts', { name: 'hook', type: 'webhook', settings: { url: busy.url } });
    expect(await api('POST', 'alerts/hook/test', {})).toMatchObject({
      ...{ outcome: 'failed', status: 503, answer: 'busy' },
    });
    // No TLS there: the password stays here, and no answer shows it.
    const unsafe = await api('POST', 'alerts/mail/test', {});
    expect(unsafe).toMatchObject({ outcome: 'failed', receiver: mailbox.server });
    expect(refusing.lines.some(({ text }) => text.startsWith('AUTH'))).toBe(false);
    // A mask stands for the password only for the server that it belongs to.
    const shown = await api('GET', 'alerts/mail');
    expect(JSON.stringify(shown)).not.toContain('p4ssword');
    expect(await api('PATCH', 'alerts/mail', { settings: { from: 'x@b.example' } })).toMatchObject({
      settings: { from: 'x@b.example', password: { set: true, hint: 'rver' } },
    });
    expect(await api('PATCH', 'alerts/mail', { settings: { server: 'smtps://evil.example' } })).toMatchObject(
      {
        code: 'invalid_parameters',
      },
    );
    await api('PATCH', 'alerts/mail', { settings: { user: null, password: null } });
    const tested = await runVerb(['alert', 'test', 'mail', '--url', program.url, '--data', place.data]);
    expect(tested.out).toMatch(/failed: .*554 not today/);
    expect(tested.code).toBe(1);
  });
});

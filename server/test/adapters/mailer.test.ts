import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { createSocketOpener } from '../../src/adapters/http-client/connector.ts';
import { egressRules } from '../../src/adapters/http-client/egress.ts';
import { createMailer } from '../../src/adapters/smtp/mailer.ts';
import type { AlertMailbox } from '../../src/model/alert.ts';
import { type SmtpServer, type SmtpServerOptions, startSmtpServer } from '../support/smtp-server.ts';
import { type ConnectProxy, startConnectProxy } from '../webhooks/connect-proxy.ts';

const CA = readFileSync(new URL('../support/tls/ca.pem', import.meta.url), 'utf8');
const MAIL = { id: 'id-1', subject: 'Millrace: crm is failing', text: 'New: crm is failing.\n' };
const started: { stop(): Promise<void> }[] = [];

afterEach(async () => {
  for (const one of started.splice(0)) await one.stop();
});

async function serve(options: SmtpServerOptions = {}): Promise<SmtpServer> {
  const server = await startSmtpServer(options);
  started.push(server);
  return server;
}

function mailbox({ port }: SmtpServer, parts: Partial<AlertMailbox> = {}): AlertMailbox {
  return { server: `smtp://localhost:${port}`, from: 'a@b.example', to: ['ops@c.example'], ...parts };
}

const mailerWith = (allow: readonly string[], more = {}) =>
  createMailer({
    ...createSocketOpener({ egress: egressRules(allow), ca: CA, ...more }),
    stepLimit: 2000,
  });
const mailer = mailerWith(['127.0.0.1/32', '::1/128']);
const SIGNED_IN = { user: 'millrace', password: 'pässwörd-1' };

describe('the mailer', () => {
  it('hands a mail to the server as it is, to every recipient', async () => {
    const server = await serve();
    const to = ['ops@c.example', 'boss@c.example'];
    const sent = await mailer.send({ ...MAIL, subject: 'Ünwell: 10 €' }, mailbox(server, { to }));
    expect(sent).toEqual({ kind: 'taken', answer: '250 queued as 1' });
    const [mail] = server.mails;
    expect(mail).toMatchObject({ from: 'a@b.example', to, isEncrypted: false });
    expect(mail!.data).toMatch(/^Message-ID: <id-1@millrace>\r$/m);
    expect(mail!.data).toMatch(/^Subject: =\?UTF-8\?/m);
    expect(mail!.data).toContain('\r\n\r\nNew: crm is failing.');
  });

  it('signs in over TLS', async () => {
    const server = await serve({ certificate: 'server', login: 'millrace:pässwörd-1' });
    expect(await mailer.send(MAIL, mailbox(server, SIGNED_IN))).toMatchObject({ kind: 'taken' });
    expect(server.mails).toMatchObject([{ isEncrypted: true, user: 'millrace' }]);
  });

  it('never sends a password to a server without TLS, or with a certificate that is not trusted', async () => {
    const plain = await serve({ login: 'millrace:pässwörd-1' });
    const foreign = await serve({ certificate: 'other-host', login: 'millrace:pässwörd-1' });
    for (const server of [plain, foreign]) {
      expect(await mailer.send(MAIL, mailbox(server, SIGNED_IN))).toMatchObject({ kind: 'failed' });
      expect(server.mails).toEqual([]);
      expect(server.lines.filter(({ text }) => /AUTH/.test(text))).toEqual([]);
    }
  });

  it('tells what the server said, without the password', async () => {
    const server = await serve({ certificate: 'server', login: 'millrace:another' });
    const sent = await mailer.send(MAIL, mailbox(server, SIGNED_IN));
    expect(sent).toEqual({
      kind: 'failed',
      detail: expect.stringMatching(/^smtp:\/\/localhost:\d+: .*535 the password … is wrong/),
    });
    const full = await serve({ verdict: '452 no room' });
    expect(await mailer.send(MAIL, mailbox(full))).toMatchObject({
      detail: expect.stringContaining('452 no room'),
    });
  });

  it('says of a server that is no address, as an older version may have stored it, how to write one', async () => {
    const envelope = { from: 'a@b.example', to: ['ops@c.example'] };
    for (const server of ['smtp://[1::2::3]', 'smtps://mail.c.example:99999'])
      expect(await mailer.send(MAIL, { server, ...envelope })).toEqual({
        kind: 'failed',
        detail: `${server} is not the address of a server: write smtp:// or smtps://, a host and a port up to 65535`,
      });
  });

  it('names the recipients that were refused while others got the mail', async () => {
    const server = await serve({ refused: ['gone@c.example'] });
    const sent = await mailer.send(MAIL, mailbox(server, { to: ['ops@c.example', 'gone@c.example'] }));
    expect(sent).toEqual({ kind: 'taken', answer: '250 queued as 1; refused for gone@c.example' });
  });

  it('keeps to the egress rules', async () => {
    const server = await serve();
    const sent = await mailerWith([]).send(MAIL, mailbox(server));
    expect(sent).toMatchObject({ kind: 'failed', detail: expect.stringContaining('refused as loopback') });
    expect(server.lines).toEqual([]);
  });

  it('goes through the proxy, to the address that was checked', async () => {
    const proxy: ConnectProxy = await startConnectProxy({});
    started.push(proxy);
    const server = await serve();
    const through = mailerWith(['127.0.0.1/32'], {
      proxy: { isSecure: false, hostname: '127.0.0.1', port: proxy.port },
    });
    const address = { server: `smtp://127.0.0.1:${server.port}` };
    expect(await through.send(MAIL, mailbox(server, address))).toMatchObject({ kind: 'taken' });
    expect(proxy.asked.map(({ target }) => target)).toEqual([`127.0.0.1:${server.port}`]);
  });

  it('gives up a server that says nothing, and one that is not there', async () => {
    const silent = await serve({ isSilent: true });
    expect(await mailer.send(MAIL, mailbox(silent))).toMatchObject({
      detail: expect.stringContaining('Greeting never received'),
    });
    const { port } = silent;
    await started.pop()!.stop();
    expect(await mailer.send(MAIL, mailbox({ ...silent, port }))).toMatchObject({
      detail: expect.stringContaining('ECONNREFUSED'),
    });
  });
});

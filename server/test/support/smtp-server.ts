import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { within } from './until.ts';

/** One mail as a server took it. */
export interface TakenMail {
  readonly from: string;
  readonly to: readonly string[];
  /** Head and body as they came. */
  readonly data: string;
  readonly isEncrypted: boolean;
  /** The user who had signed in; absent where nobody did. */
  readonly user?: string;
}

export interface SmtpServer {
  readonly port: number;
  readonly mails: readonly TakenMail[];
  /** Every line that clients sent, in the clear or not. */
  readonly lines: readonly { readonly text: string; readonly isEncrypted: boolean }[];
  count(n: number): Promise<void>;
  stop(): Promise<void>;
}

export interface SmtpServerOptions {
  /** Offers STARTTLS with this certificate of `support/tls`. */
  readonly certificate?: string;
  /** `user:password` that it wants before any mail. */
  readonly login?: string;
  /** Recipients that it refuses. */
  readonly refused?: readonly string[];
  /** The answer to the data; `250 queued as 1` when absent. */
  readonly verdict?: string;
  /** Says nothing at all. */
  readonly isSilent?: boolean;
}

const pem = (name: string) => readFileSync(new URL(`./tls/${name}`, import.meta.url), 'utf8');

/** A mail server on a real socket that knows as much of RFC 5321 as a client needs. */
export async function startSmtpServer(options: SmtpServerOptions = {}): Promise<SmtpServer> {
  const mails: TakenMail[] = [];
  const lines: { text: string; isEncrypted: boolean }[] = [];
  const sockets = new Set<Socket>();
  const watchers = new Set<() => void>();
  const took = (mail: TakenMail) => {
    mails.push(mail);
    for (const watch of watchers) watch();
  };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
    if (options.isSilent !== true) converse(socket, { options, took, lines });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    mails,
    lines,
    count: (n) => {
      const taken = new Promise<void>((resolve) => {
        const watch = () => {
          if (mails.length < n) return;
          watchers.delete(watch);
          resolve();
        };
        watchers.add(watch);
        watch();
      });
      return within(`${n} mails are taken`, taken, () => `${mails.length} are.`);
    },
    stop: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

interface Conversation {
  readonly options: SmtpServerOptions;
  readonly took: (mail: TakenMail) => void;
  readonly lines: { text: string; isEncrypted: boolean }[];
}

function converse(plain: Socket, { options, took, lines }: Conversation): void {
  let socket: Socket = plain;
  let user: string | undefined;
  let from = '';
  let to: string[] = [];
  let data: string | undefined;
  let rest = '';
  const say = (text: string) => void socket.write(`${text}\r\n`);

  const encrypt = () => {
    const name = options.certificate ?? '';
    say('220 go ahead');
    plain.removeAllListeners('data');
    socket = new TLSSocket(plain, { isServer: true, cert: pem(`${name}.pem`), key: pem(`${name}.key`) });
    socket.on('error', () => {});
    socket.on('data', read);
  };
  const greet = () => {
    const isPlain = socket === plain;
    const offers = [
      ...(options.certificate !== undefined && isPlain ? ['STARTTLS'] : []),
      ...(options.login === undefined ? [] : ['AUTH PLAIN']),
      '8BITMIME',
    ];
    for (const [n, offer] of offers.entries()) say(`250${n === offers.length - 1 ? ' ' : '-'}${offer}`);
  };
  const signIn = (credentials: string) => {
    const [, name, password] = Buffer.from(credentials, 'base64').toString().split('\0');
    if (`${name}:${password}` !== options.login) return say(`535 the password ${password} is wrong`);
    user = name;
    say('235 welcome');
  };
  const command = (line: string) => {
    const [verb = '', argument = ''] = [line.slice(0, 4).toUpperCase(), /<(.*?)>/.exec(line)?.[1]];
    if (verb === 'EHLO' || verb === 'HELO') greet();
    else if (verb === 'STAR' && options.certificate === undefined) say('502 no TLS here');
    else if (verb === 'STAR') encrypt();
    else if (verb === 'AUTH') signIn(line.split(' ')[2] ?? '');
    else if (verb === 'MAIL' && options.login !== undefined && user === undefined) say('530 sign in first');
    else if (verb === 'MAIL') {
      from = argument;
      to = [];
      say('250 ok');
    } else if (verb === 'RCPT' && options.refused?.includes(argument)) say('550 no such person');
    else if (verb === 'RCPT') {
      to.push(argument);
      say('250 ok');
    } else if (verb === 'DATA') {
      data = '';
      say('354 go on');
    } else if (verb === 'QUIT') say('221 bye');
    else say('250 ok');
  };
  const read = (bytes: Buffer) => {
    rest += bytes.toString();
    for (let end = rest.indexOf('\r\n'); end >= 0; end = rest.indexOf('\r\n')) {
      const line = rest.slice(0, end);
      rest = rest.slice(end + 2);
      const isEncrypted = socket !== plain;
      lines.push({ text: line, isEncrypted });
      if (data === undefined) command(line);
      else if (line === '.') {
        took({ from, to, data, isEncrypted, ...(user === undefined ? {} : { user }) });
        data = undefined;
        say(options.verdict ?? '250 queued as 1');
      } else data += `${line.replace(/^\./, '')}\r\n`;
    }
  };
  plain.on('data', read);
  say('220 mail.example ready');
}

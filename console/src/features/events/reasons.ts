/** Why something happened, as a sentence with a cause and what to do: the reasons of docs/reference/delivery.md and its kin. */

const SENTENCES: Readonly<Record<string, string>> = {
  timeout:
    'The endpoint gave no complete answer within 5 seconds. It is asked again; make it answer before it does its work.',
  name_not_resolved: 'The host name has no address. Correct the URL, or the DNS record.',
  connection_refused: 'Nothing listens at that address and port. Start the receiver, or correct the URL.',
  connection_closed:
    'The endpoint closed the connection before it had answered. Look into its log, or that of the proxy before it.',
  connection_failed: 'No connection came about: no route, no TLS at that port, or the proxy gives none.',
  certificate_untrusted:
    'The certificate is expired, self-signed, for another host or of an unknown authority. Renew it. Nothing was sent.',
  protocol_error: 'What came back is not HTTP. Correct the URL or the port.',
  egress_refused:
    'The address is private or reserved. Name it in egress.allow if it is yours. Nothing was sent.',
  invalid_request: 'The URL or a header cannot be sent. Correct the settings of the destination.',
  integrations: 'The call itself leaves this destination out, in its field integrations.',
  destination_disabled: 'The destination was disabled when the event came. Enable it, then replay the range.',
  retry_window: 'It was tried for four hours without success. Redeliver it when the endpoint answers.',
  no_endpoint: 'Its endpoint or destination was removed. Redeliver it when there is one again.',
};

/** Statuses that a person can do something about, each for itself. */
const STATUSES: Readonly<Record<string, string>> = {
  '401': 'The endpoint wants other credentials. Set the header it expects, then redeliver.',
  '403': 'The endpoint knows the sender and refuses it. Ask its owner, then redeliver.',
  '404': 'Nothing is at that path. Correct the URL, then redeliver.',
  '410': 'The endpoint says it is gone for good. Correct the URL, or remove the destination.',
  '413': 'The endpoint takes no body of this size. Raise its limit, then redeliver.',
  '429': 'The endpoint sheds load and is asked again later. A rate limit of the destination avoids it.',
  '503': 'The endpoint is up but sheds load. It is asked again; nothing is lost.',
};

export function reasonSentence(reason: string): string {
  const known = SENTENCES[reason];
  if (known !== undefined) return known;
  const status = /^status_(\d{3})$/.exec(reason)?.[1];
  if (status === undefined) return `The reason is ${reason}.`;
  const special = STATUSES[status];
  if (special !== undefined) return special;
  if (status.startsWith('5')) return 'The endpoint failed, and is asked again. Its own log says why.';
  if (status.startsWith('3'))
    return 'The endpoint redirects, which is not followed. Set the URL it leads to.';
  return 'The endpoint refuses the event. Its answer below may say why; correct it there, then redeliver.';
}

/** "503 in 12 ms" and its kin: the short form of an attempt's result. */
export function resultWord(reason: string, status?: number): string {
  return status === undefined ? reason.replaceAll('_', ' ') : String(status);
}

import * as z from 'zod';
import type { Destination } from '../model/destination.ts';
import { hiddenTexts } from '../model/hidden-values.ts';
import { maskSecret, maskUrl, type SecretMask } from '../model/secrets.ts';
import type { DestinationTypes, PreviewedRequest } from '../ports/destination-type.ts';
import { maskSchema } from './records.ts';

/** A request to an endpoint as it is shown. */
export const requestSchema = z.object({
  method: z.literal('POST'),
  url: z.string(),
  headers: z.record(z.string(), z.union([z.string(), maskSchema])),
  body: z.string(),
});

export type RequestView = z.output<typeof requestSchema>;

/** Replaces the value of a header that is a secret of the settings; gives any other back. */
export type HeaderMask = (value: string) => string | SecretMask;

/** The headers of a destination's requests are shown without the credentials of its settings. */
export function headerMaskOf(
  { type, settings }: Pick<Destination, 'type' | 'settings'>,
  types: DestinationTypes,
): HeaderMask {
  const hidden = types.get(type)?.settings.hidden ?? { addresses: [], secrets: [] };
  const found = hiddenTexts(settings, hidden);
  const values = new Set(found.flatMap(({ kind, text }) => (kind === 'header' ? [text] : [])));
  // A credential is often sent behind its scheme.
  const credentials = found.flatMap(({ kind, text }) => (kind === 'credential' && text !== '' ? [text] : []));
  const isSecret = (value: string) => values.has(value) || credentials.some((one) => value.includes(one));
  return (value) => (isSecret(value) ? maskSecret(value) : value);
}

/**
 * A request without its secrets. The body is text, because the signature is over its exact bytes. Values in
 * the URL are masked as well.
 */
export function requestView(
  { url, headers, body }: Pick<PreviewedRequest, 'url' | 'headers' | 'body'>,
  mask: HeaderMask,
): RequestView {
  return {
    method: 'POST',
    url: maskUrl(url),
    headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, mask(value)])),
    body: body.toString(),
  };
}

import { Plus, X } from 'lucide-react';
import type { ApiFault } from '../../api/client.ts';
import { faultOf } from '../../editing/faults.ts';
import { Button, TextInput } from '../../ui/controls.tsx';
import { TextField } from '../../ui/form-fields.tsx';
import type { EndpointDraft, HeaderDraft } from './form.ts';
import './endpoint-fields.css';

const MAX_ENDPOINTS = 5;
const MAX_HEADERS = 5;

interface EndpointFieldsProps {
  readonly endpoints: readonly EndpointDraft[];
  readonly faults: readonly ApiFault[];
  readonly onChange: (endpoints: readonly EndpointDraft[]) => void;
}

/** One to five URLs, each with up to five headers. */
export function EndpointFields({ endpoints, faults, onChange }: EndpointFieldsProps) {
  const replace = (nth: number, endpoint: EndpointDraft) => onChange(endpoints.with(nth, endpoint));
  return (
    <fieldset className="stack-s plain">
      <legend className="lbl">Endpoints</legend>
      {endpoints.map((endpoint, nth) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: endpoints have no identity but their place.
        <div key={nth} className="box pad stack-s">
          <TextField
            label={endpoints.length === 1 ? 'URL' : `URL ${nth + 1}`}
            hint="https, without a user name in it. Every event is posted there."
            error={faultOf(faults, `settings.endpoints[${nth}].url`)}
            type="url"
            className="mono"
            placeholder="https://example.com/hook"
            value={endpoint.url}
            onChange={(url) => replace(nth, { ...endpoint, url })}
            after={
              endpoints.length > 1 && (
                <Button
                  kind="quiet"
                  isSmall
                  isIcon
                  aria-label={`Remove URL ${nth + 1}`}
                  onClick={() => onChange(endpoints.toSpliced(nth, 1))}
                >
                  <X className="i i-s" aria-hidden />
                </Button>
              )
            }
          />
          <HeaderFields
            headers={endpoint.headers}
            of={nth}
            error={faultOf(faults, `settings.endpoints[${nth}].headers`)}
            onChange={(headers) => replace(nth, { ...endpoint, headers })}
          />
        </div>
      ))}
      {endpoints.length < MAX_ENDPOINTS && (
        <div>
          <Button isSmall onClick={() => onChange([...endpoints, { url: '', headers: [] }])}>
            <Plus className="i i-s" aria-hidden />
            Another URL
          </Button>
        </div>
      )}
    </fieldset>
  );
}

interface HeaderFieldsProps {
  readonly headers: readonly HeaderDraft[];
  /** The place of the endpoint, from 0. */
  readonly of: number;
  readonly error: string | undefined;
  readonly onChange: (headers: readonly HeaderDraft[]) => void;
}

function HeaderFields({ headers, of, error, onChange }: HeaderFieldsProps) {
  const replace = (nth: number, header: HeaderDraft) => onChange(headers.with(nth, header));
  return (
    <div className="stack-s">
      {headers.map(({ name, value }, nth) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: headers have no identity but their place.
        <div key={nth} className="header-row">
          <TextInput
            isSmall
            className="mono"
            aria-label={`Name of header ${nth + 1} of URL ${of + 1}`}
            placeholder="X-Team"
            value={name}
            onChange={(event) => replace(nth, { name: event.target.value, value })}
          />
          <TextInput
            isSmall
            className="mono"
            aria-label={`Value of header ${nth + 1} of URL ${of + 1}`}
            placeholder={typeof value === 'string' ? 'growth' : `kept${hintOf(value)}; type to replace it`}
            value={typeof value === 'string' ? value : ''}
            onChange={(event) => replace(nth, { name, value: event.target.value })}
          />
          <Button
            kind="quiet"
            isSmall
            isIcon
            aria-label={`Remove header ${nth + 1} of URL ${of + 1}`}
            onClick={() => onChange(headers.toSpliced(nth, 1))}
          >
            <X className="i i-s" aria-hidden />
          </Button>
        </div>
      ))}
      {error !== undefined && (
        <p className="bad field-error" role="alert">
          {error}
        </p>
      )}
      {headers.length < MAX_HEADERS && (
        <div>
          <Button kind="quiet" isSmall onClick={() => onChange([...headers, { name: '', value: '' }])}>
            <Plus className="i i-s" aria-hidden />
            Header
          </Button>
        </div>
      )}
    </div>
  );
}

function hintOf({ hint }: { readonly hint?: string }): string {
  return hint === undefined ? '' : ` (ends in ${hint})`;
}

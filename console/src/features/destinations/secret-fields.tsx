import type { ReactNode } from 'react';
import type { ApiFault } from '../../api/client.ts';
import { faultOf } from '../../editing/faults.ts';
import { Button, CopyButton } from '../../ui/controls.tsx';
import { Notice } from '../../ui/empty-state.tsx';
import { Check, TextField } from '../../ui/form-fields.tsx';
import { type DestinationDraft, newSharedSecret, newSigningSecret, type StoredSecret } from './form.ts';
import type { DestinationStatus } from './queries.ts';

/** The half of the key that is no secret. */
export type PublicKey = NonNullable<DestinationStatus['publicKey']>;

interface SecretFieldsProps {
  readonly draft: DestinationDraft;
  /** The draft of the stored destination. */
  readonly initial: DestinationDraft;
  /** Absent while there is none. */
  readonly publicKey: PublicKey | undefined;
  readonly faults: readonly ApiFault[];
  readonly onChange: (change: Partial<DestinationDraft>) => void;
  /** Stands below the fields. */
  readonly children?: ReactNode;
}

/** The secrets that sign requests. A stored one is never shown; it can be kept, replaced or taken away. */
export function SecretFields({ draft, initial, publicKey, faults, onChange, children }: SecretFieldsProps) {
  const isSigned = draft.sharedSecret !== '' || draft.nextSharedSecret !== '';
  return (
    <fieldset className="stack-s plain">
      <legend className="lbl">Signatures</legend>
      <SharedSecretField
        label="Shared secret (X-Signature)"
        hint={
          draft.sharedSecret === ''
            ? 'Without one, receivers cannot know who sends.'
            : 'Receivers need it at the same moment.'
        }
        secret={draft.sharedSecret}
        stored={initial.sharedSecret}
        error={faultOf(faults, 'settings.sharedSecret')}
        onChange={(sharedSecret) => onChange({ sharedSecret })}
      />
      {isSigned && (
        <SharedSecretField
          label="Next shared secret (X-Signature-Next)"
          hint="Signs every request too, until receivers know it. Then make it the shared secret."
          secret={draft.nextSharedSecret}
          stored={initial.nextSharedSecret}
          error={faultOf(faults, 'settings.nextSharedSecret')}
          onChange={(nextSharedSecret) => onChange({ nextSharedSecret })}
        />
      )}
      <SigningSecrets
        secrets={draft.signingSecrets}
        error={faultOf(faults, 'settings.signingSecrets')}
        onChange={(signingSecrets) => onChange({ signingSecrets })}
      />
      <Check isChecked={draft.publicSignature} onChange={(publicSignature) => onChange({ publicSignature })}>
        Sign so that receivers verify without a secret (v1a, with a public key)
      </Check>
      {draft.publicSignature && initial.publicSignature && publicKey !== undefined && (
        <PublicKeyMark publicKey={publicKey} />
      )}
      {initial.publicSignature && !draft.publicSignature && (
        <Notice>The key is forgotten: switched on again, receivers need another one.</Notice>
      )}
      {children}
    </fieldset>
  );
}

function PublicKeyMark({ publicKey: { publicKey, path } }: { readonly publicKey: PublicKey }) {
  return (
    <div className="stack-s">
      <div className="rowx">
        <span className="lbl">Public key</span>
        <code className="tok tok-w">{publicKey}</code>
        <CopyButton text={publicKey} label="Copy the public key" />
      </div>
      <p className="soft">
        Everybody gets it from <span className="mono">{path}</span> of the receiving API.
      </p>
    </div>
  );
}

interface SharedSecretFieldProps {
  readonly label: string;
  readonly hint: string;
  readonly secret: string | StoredSecret;
  readonly stored: string | StoredSecret;
  readonly error: string | undefined;
  readonly onChange: (secret: string | StoredSecret) => void;
}

function SharedSecretField({ label, hint, secret, stored, error, onChange }: SharedSecretFieldProps) {
  if (typeof secret !== 'string') {
    return (
      <div className="rowx">
        <span className="lbl">{label}</span>
        <StoredMark secret={secret} />
        <Button isSmall onClick={() => onChange(newSharedSecret())}>
          Replace
        </Button>
        <Button kind="danger" isSmall onClick={() => onChange('')}>
          Remove
        </Button>
      </div>
    );
  }
  return (
    <TextField
      label={label}
      error={error}
      hint={hint}
      className="mono"
      value={secret}
      onChange={onChange}
      after={
        <>
          {secret !== '' && <CopyButton text={secret} label={`Copy: ${label}`} isIcon />}
          <Button isSmall onClick={() => onChange(newSharedSecret())}>
            Generate
          </Button>
          {typeof stored !== 'string' && (
            <Button kind="quiet" isSmall onClick={() => onChange(stored)}>
              Keep the old one
            </Button>
          )}
        </>
      }
    />
  );
}

function StoredMark({ secret: { hint } }: { readonly secret: StoredSecret }) {
  return <span className="tok">{hint === undefined ? 'set' : `…${hint}`}</span>;
}

interface SigningSecretsProps {
  readonly secrets: readonly (string | StoredSecret)[];
  readonly error: string | undefined;
  readonly onChange: (secrets: readonly (string | StoredSecret)[]) => void;
}

const MAX_SIGNING_SECRETS = 2;

/** Two while one replaces the other: every request then carries a signature of each. */
function SigningSecrets({ secrets, error, onChange }: SigningSecretsProps) {
  return (
    <div className="stack-s">
      <div className="rowx">
        <span className="lbl">Standard Webhooks secrets (Webhook-Signature)</span>
        {secrets.length < MAX_SIGNING_SECRETS && (
          <Button isSmall onClick={() => onChange([newSigningSecret(), ...secrets])}>
            {secrets.length === 0 ? 'Add one' : 'Begin to replace it'}
          </Button>
        )}
      </div>
      {secrets.map((secret, nth) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a secret has no identity but its place.
        <div key={nth} className="rowx">
          {typeof secret === 'string' ? (
            <>
              <code className="tok tok-w">{secret}</code>
              <CopyButton text={secret} label="Copy the new secret" />
            </>
          ) : (
            <StoredMark secret={secret} />
          )}
          <Button kind="danger" isSmall onClick={() => onChange(secrets.toSpliced(nth, 1))}>
            Remove
          </Button>
        </div>
      ))}
      {secrets.length === MAX_SIGNING_SECRETS && (
        <Notice>
          Every request is signed with both. Give the receiver the new one, then remove the old one: no
          request is without a valid signature.
        </Notice>
      )}
      {error !== undefined && (
        <p className="bad field-error" role="alert">
          {error}
        </p>
      )}
    </div>
  );
}

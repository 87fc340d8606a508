/**
 * The software bill of materials of a release: what `npm sbom` says of the lock, in CycloneDX. It has all
 * packages of the lock, those of other systems too; tools of this repository that are shipped nowhere have
 * the property `cdx:npm:package:development`.
 */

interface Component {
  readonly 'bom-ref': string;
  readonly name: string;
  readonly version: string;
  readonly purl: string;
}

export interface Bom {
  readonly serialNumber?: string;
  readonly metadata: { readonly timestamp: string; readonly component: Component };
  readonly components: readonly Component[];
}

/**
 * The bill as it is published. npm names a workspace after its folder, and an alias by its own name, where
 * the address of the package (`purl`) has the true one: each gets that. The time is of the commit, and the
 * random number is left out, so that one commit has one bill.
 */
export function billOf({ serialNumber: _, ...bom }: Bom, committed: Date): Bom {
  const component = { ...named(bom.metadata.component), type: 'application' };
  return {
    ...bom,
    metadata: { ...bom.metadata, timestamp: committed.toISOString(), component },
    components: bom.components.map(named),
  };
}

/** `pkg:npm/%40millrace/client@0.1.0` → the same component with the name `@millrace/client`. */
function named(component: Component): Component {
  const name = /^pkg:npm\/(.+)@[^@]+$/.exec(component.purl)?.[1];
  return name === undefined ? component : { ...component, name: decodeURIComponent(name) };
}

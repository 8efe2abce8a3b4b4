import { render } from "preact";
import { App } from "./app";
import { EmbeddedSource, ServerSource } from "./source";

const source = EmbeddedSource.isHere() ? new EmbeddedSource() : new ServerSource();
render(<App source={source} />, document.getElementById("app")!);
